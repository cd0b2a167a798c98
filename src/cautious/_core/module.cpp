// The extension: one module of Python per subject. It is compiled once for every CPU level.
#include "algorithm_1.hpp"
#include "binding.hpp"
#include "certificate.hpp"
#include "chains.hpp"
#include "cholesky.hpp"
#include "cholesky_analysis.hpp"
#include "flow.hpp"
#include "rows.hpp"
#include "simplex.hpp"
#include "evaluation_acceleration.hpp"
#include "likely_moves.hpp"
#include "planning.hpp"
#include "trailing_passes.hpp"
#include "interior_blocks.hpp"
#include "interior_steps.hpp"
#include "dense_transport.hpp"
#include "network_simplex.hpp"
#include "restricted_master.hpp"
#include "text.hpp"
#include "sampling.hpp"
#include "entropic.hpp"
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
    subject("certificate", "The certificate's own loops: bounds that include rounding, and exact sums.", certificate_kernels),
    subject("chains", "The Markov chain of one policy and its linear systems.", chains_kernels, chains_constants),
    subject("cholesky", "Sparse Cholesky factorisation by dense fronts, and solving with the factor.",
            cholesky_kernels),
    subject("cholesky_analysis", "What a sparse Cholesky factor will look like, before any number is known.",
            cholesky_analysis_kernels, cholesky_analysis_constants),
    subject("flow", "The flow operator of a model and its adjoint, without building a matrix.", flow_kernels),
    subject("rows", "Loops over the rows and the graph of a model.", rows_kernels),
    subject("simplex", "Distributions nearest to given numbers.", simplex_kernels),
    subject("planning", "Bellman sweeps, and evaluation passes over the chain of one policy.", planning_kernels,
            planning_constants),
    subject("trailing_passes", "Several evaluation passes at once, close behind each other in the cache.",
            trailing_passes_kernels, trailing_passes_constants),
    subject("likely_moves", "A simplified model in which each pair leads to its likeliest outcome.",
            likely_moves_kernels),
    subject("evaluation_acceleration", "Evaluation passes, then the best combination of a few corrections.",
            evaluation_acceleration_kernels, evaluation_acceleration_constants),
    subject("interior_blocks", "The flow operator state by state, and its normal matrix.", interior_blocks_kernels,
            interior_blocks_constants),
    subject("interior_steps", "The entry-by-entry work of the interior point method.", interior_steps::kernels),
    subject("network_simplex", "Cheapest flows without capacities: the primal network simplex on a spanning tree.",
            network_simplex::kernels, network_simplex::constants),
    subject("dense_transport", "The parts of a dense interior point whose work grows with a table.",
            dense_transport::kernels),
    subject("restricted_master", "The small problem of column generation by a primal-dual interior point.",
            restricted_master::kernels),
    subject("text", "Numbers out of lines of text.", text::kernels, text::constants),
    subject("algorithm_1", "Algorithm 1 as printed, on the tables of a known model.", algorithm_1_kernels,
            algorithm_1_constants),
    subject("sampling", "Random numbers, draws from tables, counts, and sweeps of the practical Algorithm 1.",
            sampling_kernels),
    subject("entropic", "Loops of the entropic dual: exponents, their sums, and conjugate gradients.", entropic::kernels),
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
