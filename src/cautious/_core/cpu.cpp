// The x86-64 level of this processor (2, 3 or 4; 1 if it has not even that), asked by cpuid; 0 on other architectures.
#include "python_abi.hpp"

#if defined(__x86_64__)
#include <cpuid.h>

namespace {

struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
    Registers(unsigned leaf, unsigned part) { __get_cpuid_count(leaf, part, &a, &b, &c, &d); }
};

bool has(unsigned word, unsigned bits) { return (word & bits) == bits; }

constexpr unsigned bit(int place) { return 1u << place; }

long level() {
    Registers one(1, 0), seven(7, 0), extended(0x80000001u, 0);
    // cmpxchg16b, popcnt, SSE3, SSSE3, SSE4.1, SSE4.2; lahf
    if (!has(one.c, bit(13) | bit(23) | bit(0) | bit(9) | bit(19) | bit(20)) || !has(extended.c, bit(0))) return 1;
    // the system must save wide registers: osxsave, then the state that it saves
    unsigned saved = 0, high = 0;
    if (has(one.c, bit(27))) __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    // FMA, movbe, AVX, F16C; AVX2, BMI1, BMI2; lzcnt
    if (!has(saved, 0x6) || !has(one.c, bit(12) | bit(22) | bit(28) | bit(29)) ||
        !has(seven.b, bit(5) | bit(3) | bit(8)) || !has(extended.c, bit(5)))
        return 2;
    // AVX-512 F, DQ, CD, BW, VL
    return has(saved, 0xe6) && has(seven.b, bit(16) | bit(17) | bit(28) | bit(30) | bit(31)) ? 4 : 3;
}

}  // namespace
#else
static long level() { return 0; }
#endif

#ifdef _WIN32
extern "C" __declspec(dllexport)
#else
extern "C" [[gnu::visibility("default")]]
#endif
PyObject* PyInit__cpu() {
    static PyModuleDef definition{};
    definition.m_name = "_cpu";
    definition.m_size = -1;
    PyObject* module = PyModule_Create2(&definition, cautious::written_down::STABLE_ABI_VERSION);
    PyObject* found = PyLong_FromLongLong(level());
    if (module == nullptr || found == nullptr || PyModule_AddObjectRef(module, "LEVEL", found) != 0) return nullptr;
    Py_DecRef(found);
    return module;
}
