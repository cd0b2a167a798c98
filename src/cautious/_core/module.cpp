// The extension: one module of Python per subject. It is compiled once for every CPU level.
#include "binding.hpp"
#include "entropic.hpp"
#include "flow.hpp"
#include "proximal.hpp"

namespace cautious {

template <int N>
constexpr Subject subject(const char* name, const char* doc, const Kernel (&kernels)[N]) {
    return {name, doc, kernels, N};
}
template <int N, int M>
constexpr Subject subject(const char* name, const char* doc, const Kernel (&kernels)[N], const Constant (&constants)[M]) {
    return {name, doc, kernels, N, constants, M};
}

const Subject subjects[] = {
    subject("flow", "The flow operator of a model and its adjoint, without building a matrix.", flow_kernels),
    subject("entropic", "Loops of the entropic dual: exponents, sums, and conjugate gradients.", entropic::kernels),
    subject("proximal", "Products and solves with the Newton matrix of a separable problem.", proximal::kernels),
};

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
    for (const Subject& subject : subjects)
        if (!add_subject(module, descriptions, subject)) return nullptr;
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
