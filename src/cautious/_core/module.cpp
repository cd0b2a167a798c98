// The extension: one module of Python per subject. It is compiled once for every CPU level.
#include "binding.hpp"

namespace cautious {

// All subjects. Each is compiled by itself (subject.cpp), so that a changed header rebuilds in seconds.
#define CAUTIOUS_SUBJECTS(DO) \
    DO(algorithm_1) DO(certificate) DO(chains) DO(cholesky) \
    DO(cholesky_analysis) DO(dense_transport) DO(earned) DO(entropic) DO(evaluation_acceleration) \
    DO(flow) DO(interior_blocks) DO(interior_steps) DO(likely_moves) \
    DO(network_simplex) DO(outcomes) DO(planning) DO(proximal) \
    DO(restricted_master) DO(rows) DO(sampling) DO(simplex) DO(targets) \
    DO(text)

#define CAUTIOUS_DECLARE(name) extern const Subject& subject_##name;
CAUTIOUS_SUBJECTS(CAUTIOUS_DECLARE)

// A module of the kernels of one subject; false with an error set if Python has no room for it.
bool add_subject(PyObject* parent, PyObject* descriptions, const Subject& subject) {
    PyObject* module = PyModule_New(subject.name);
    if (module == nullptr || PyModule_SetDocString(module, subject.doc) != 0) return false;
    for (int i = 0; i < subject.count; ++i) {
        const Kernel& kernel = subject.kernels[i];
        PyObject* self = PyCapsule_New(const_cast<Kernel*>(&kernel), nullptr, nullptr);
        PyMethodDef* method = method_of(kernel);
        if (self == nullptr || method == nullptr) return false;
        PyObject* function = PyCFunction_NewEx(method, self, nullptr);
        if (function == nullptr || PyModule_AddObjectRef(module, kernel.name, function) != 0) return false;
        PyObject* described = Py_BuildValue("sssss", subject.name, kernel.name, kernel.doc, kernel.argument_names,
                                            Signature(kernel).text);
        if (described == nullptr || PyList_Append(descriptions, described) != 0) return false;
        Py_DecRef(described);
        Py_DecRef(function);
        Py_DecRef(self);
    }
    for (int i = 0; i < subject.constant_count; ++i) {
        PyObject* value = PyLong_FromLongLong(subject.constants[i].value);
        if (value == nullptr || PyModule_AddObjectRef(module, subject.constants[i].name, value) != 0) return false;
        Py_DecRef(value);
    }
    bool added = PyModule_AddObjectRef(parent, subject.name, module) == 0;
    Py_DecRef(module);
    return added;
}

PyObject* make_module() {
    static PyModuleDef definition{};
    definition.m_name = "kernels";
    definition.m_doc = "Compiled loops on arrays, by subject.";
    definition.m_size = -1;
    PyObject* module = PyModule_Create2(&definition, written_down::STABLE_ABI_VERSION);
    PyObject* numpy = PyImport_ImportModule("numpy");
    PyObject* descriptions = PyList_New(0);
    if (module == nullptr || numpy == nullptr || descriptions == nullptr) return nullptr;
    make_array = PyObject_GetAttrString(numpy, "empty");
    Py_DecRef(numpy);
#define CAUTIOUS_ADD(name) \
    if (!add_subject(module, descriptions, subject_##name)) return nullptr;
    CAUTIOUS_SUBJECTS(CAUTIOUS_ADD)
    if (make_array == nullptr || PyModule_AddObjectRef(module, "DESCRIPTIONS", descriptions) != 0) return nullptr;
    Py_DecRef(descriptions);
    return module;
}

}  // namespace cautious

#ifdef _WIN32
#define CAUTIOUS_VISIBLE extern "C" __declspec(dllexport)
#else
#define CAUTIOUS_VISIBLE extern "C" [[gnu::visibility("default")]]
#endif
#define CAUTIOUS_NAMED(level) PyInit_##level
#define CAUTIOUS_ENTRY(level) CAUTIOUS_NAMED(level)

CAUTIOUS_VISIBLE PyObject* CAUTIOUS_ENTRY(CAUTIOUS_MODULE)() { return cautious::make_module(); }
