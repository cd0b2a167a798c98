// The part of Python's stable ABI (3.11) that the binding uses.
//
// With Python.h at hand its own declarations are taken, and the ones written down here are compared with them; without
// it, as on a bare Debian, these are enough.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cautious::written_down {

using Py_ssize_t = std::ptrdiff_t;

struct PyTypeObject;
struct PyThreadState;

struct PyObject {
    Py_ssize_t ob_refcnt;
    PyTypeObject* ob_type;
};

struct Py_buffer {
    void* buf;
    PyObject* obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char* format;
    Py_ssize_t* shape;
    Py_ssize_t* strides;
    Py_ssize_t* suboffsets;
    void* internal;
};

using PyCFunction = PyObject* (*)(PyObject*, PyObject*);

struct PyMethodDef {
    const char* ml_name;
    PyCFunction ml_meth;
    int ml_flags;
    const char* ml_doc;
};

struct PyModuleDef_Base {
    PyObject ob_base;
    PyObject* (*m_init)();
    Py_ssize_t m_index;
    PyObject* m_copy;
};

struct PyModuleDef {
    PyModuleDef_Base m_base;
    const char* m_name;
    const char* m_doc;
    Py_ssize_t m_size;
    PyMethodDef* m_methods;
    void* m_slots;
    void* m_traverse;
    void* m_clear;
    void* m_free;
};

inline constexpr int FASTCALL = 0x0080;
inline constexpr int STABLE_ABI_VERSION = 3;
inline constexpr int BUFFER_FORMAT = 0x0004;
inline constexpr int BUFFER_CONTIGUOUS = 0x0020 | 0x0010 | 0x0008;

}  // namespace cautious::written_down

#if __has_include(<Python.h>) && !defined(CAUTIOUS_WITHOUT_PYTHON_H)

#define Py_LIMITED_API 0x030B0000
#include <Python.h>

namespace cautious {
namespace w = written_down;
static_assert(sizeof(::PyObject) == sizeof(w::PyObject));
static_assert(sizeof(::Py_buffer) == sizeof(w::Py_buffer));
static_assert(offsetof(::Py_buffer, format) == offsetof(w::Py_buffer, format));
static_assert(offsetof(::Py_buffer, shape) == offsetof(w::Py_buffer, shape));
static_assert(sizeof(::PyMethodDef) == sizeof(w::PyMethodDef));
static_assert(sizeof(::PyModuleDef) == sizeof(w::PyModuleDef));
static_assert(METH_FASTCALL == w::FASTCALL && PYTHON_ABI_VERSION == w::STABLE_ABI_VERSION);
static_assert(PyBUF_FORMAT == w::BUFFER_FORMAT && (PyBUF_C_CONTIGUOUS | PyBUF_STRIDES) == w::BUFFER_CONTIGUOUS);
}  // namespace cautious

#else

#ifdef _WIN32
#define CAUTIOUS_FROM_PYTHON extern "C" __declspec(dllimport)
#else
#define CAUTIOUS_FROM_PYTHON extern "C"
#endif

using cautious::written_down::Py_buffer;
using cautious::written_down::Py_ssize_t;
using cautious::written_down::PyCFunction;
using cautious::written_down::PyMethodDef;
using cautious::written_down::PyModuleDef;
using cautious::written_down::PyObject;
using cautious::written_down::PyThreadState;

CAUTIOUS_FROM_PYTHON PyObject* PyExc_TypeError;
CAUTIOUS_FROM_PYTHON PyObject* PyExc_ValueError;
CAUTIOUS_FROM_PYTHON PyObject _Py_NoneStruct;
CAUTIOUS_FROM_PYTHON PyObject* Py_BuildValue(const char*, ...);
CAUTIOUS_FROM_PYTHON PyObject* PyBool_FromLong(long);
CAUTIOUS_FROM_PYTHON void PyBuffer_Release(Py_buffer*);
CAUTIOUS_FROM_PYTHON PyObject* PyCFunction_NewEx(PyMethodDef*, PyObject*, PyObject*);
CAUTIOUS_FROM_PYTHON void* PyCapsule_GetPointer(PyObject*, const char*);
CAUTIOUS_FROM_PYTHON PyObject* PyCapsule_New(void*, const char*, void (*)(PyObject*));
CAUTIOUS_FROM_PYTHON void PyErr_Clear();
CAUTIOUS_FROM_PYTHON PyObject* PyErr_Format(PyObject*, const char*, ...);
CAUTIOUS_FROM_PYTHON PyObject* PyErr_NoMemory();
CAUTIOUS_FROM_PYTHON PyObject* PyErr_Occurred();
CAUTIOUS_FROM_PYTHON void PyEval_RestoreThread(PyThreadState*);
CAUTIOUS_FROM_PYTHON PyThreadState* PyEval_SaveThread();
CAUTIOUS_FROM_PYTHON double PyFloat_AsDouble(PyObject*);
CAUTIOUS_FROM_PYTHON PyObject* PyFloat_FromDouble(double);
CAUTIOUS_FROM_PYTHON PyObject* PyImport_ImportModule(const char*);
CAUTIOUS_FROM_PYTHON int PyList_Append(PyObject*, PyObject*);
CAUTIOUS_FROM_PYTHON PyObject* PyList_New(Py_ssize_t);
CAUTIOUS_FROM_PYTHON long long PyLong_AsLongLong(PyObject*);
CAUTIOUS_FROM_PYTHON unsigned long long PyLong_AsUnsignedLongLong(PyObject*);
CAUTIOUS_FROM_PYTHON PyObject* PyLong_FromLongLong(long long);
CAUTIOUS_FROM_PYTHON int PyModule_AddObjectRef(PyObject*, const char*, PyObject*);
CAUTIOUS_FROM_PYTHON PyObject* PyModule_Create2(PyModuleDef*, int);
CAUTIOUS_FROM_PYTHON PyObject* PyModule_New(const char*);
CAUTIOUS_FROM_PYTHON int PyModule_SetDocString(PyObject*, const char*);
CAUTIOUS_FROM_PYTHON PyObject* PyNumber_Index(PyObject*);
CAUTIOUS_FROM_PYTHON PyObject* PyObject_CallFunction(PyObject*, const char*, ...);
CAUTIOUS_FROM_PYTHON PyObject* PyObject_CallMethod(PyObject*, const char*, const char*, ...);
CAUTIOUS_FROM_PYTHON PyObject* PyObject_GetAttrString(PyObject*, const char*);
CAUTIOUS_FROM_PYTHON int PyObject_GetBuffer(PyObject*, Py_buffer*, int);
CAUTIOUS_FROM_PYTHON int PyObject_IsTrue(PyObject*);
CAUTIOUS_FROM_PYTHON PyObject* PyTuple_New(Py_ssize_t);
CAUTIOUS_FROM_PYTHON int PyTuple_SetItem(PyObject*, Py_ssize_t, PyObject*);
CAUTIOUS_FROM_PYTHON PyObject* PyUnicode_FromString(const char*);
CAUTIOUS_FROM_PYTHON void Py_DecRef(PyObject*);
CAUTIOUS_FROM_PYTHON void Py_IncRef(PyObject*);

#endif
