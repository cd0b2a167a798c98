// Kernels as Python functions: every argument is checked before a kernel runs, and no array is ever converted.
//
// A header of kernels ends with the list of those that Python may call:
//
//     inline const Kernel kernels[] = {
//         kernel<flow_rows<i32>, flow_rows<i64>>("flow_rows", "indptr indices data gamma x out", "out = B x."),
//     };
//     inline const Subject listed = subject("flow", "The flow operator of a model.", kernels);
//
// Several functions under one name differ in their arrays' types; a call goes to the one that fits. The names of the
// arguments are for messages and for the typed stubs.
#pragma once
#include <array>
#include <bit>

#include "arrays.hpp"
#include "python_abi.hpp"

namespace cautious {

inline constexpr int MOST_ARGUMENTS = 32;

// What an argument must be: a number ('d' double, 'i' integer, 'u' unsigned integer, '?' truth) or an array ('a') of
// numbers of a kind ('f' float, 'i' integer, 'u' unsigned, '?' truth) and size in bytes.
struct Slot {
    char kind;
    char number = 0;
    int itemsize = 0;
    bool writable = false;
    bool matrix = false;
};

template <class T>
constexpr Slot array_slot(bool matrix) {
    using N = std::remove_const_t<T>;
    char number = std::is_same_v<N, bool> ? '?' : std::is_floating_point_v<N> ? 'f' : std::is_signed_v<N> ? 'i' : 'u';
    return {'a', number, sizeof(N), !std::is_const_v<T>, matrix};
}

struct Argument {
    Py_buffer view;
    bool held = false;
    // what the view's numbers are, as in Slot
    char number = 0;
    double real = 0.0;
    i64 integer = 0;
    u64 natural = 0;
    bool truth = false;
};

template <class T>
Span<T> span_of(const Argument& argument) {
    return {static_cast<T*>(argument.view.buf), argument.view.len / static_cast<i64>(sizeof(T))};
}

// How one parameter of a kernel is made from the arguments that it takes; `fault` is what is wrong with them.
template <class P>
struct Parameter;

template <>
struct Parameter<double> {
    static constexpr Slot slots[] = {{'d'}};
    static double get(const Argument* a) { return a->real; }
    static const char* fault(const Argument*) { return nullptr; }
};
template <>
struct Parameter<i64> {
    static constexpr Slot slots[] = {{'i'}};
    static i64 get(const Argument* a) { return a->integer; }
    static const char* fault(const Argument*) { return nullptr; }
};
template <>
struct Parameter<u64> {
    static constexpr Slot slots[] = {{'u'}};
    static u64 get(const Argument* a) { return a->natural; }
    static const char* fault(const Argument*) { return nullptr; }
};
template <>
struct Parameter<bool> {
    static constexpr Slot slots[] = {{'?'}};
    static bool get(const Argument* a) { return a->truth; }
    static const char* fault(const Argument*) { return nullptr; }
};
template <class T>
struct Parameter<Span<T>> {
    static constexpr Slot slots[] = {array_slot<T>(false)};
    static Span<T> get(const Argument* a) { return span_of<T>(*a); }
    static const char* fault(const Argument*) { return nullptr; }
};
template <class T>
struct Parameter<Matrix<T>> {
    static constexpr Slot slots[] = {array_slot<T>(true)};
    static Matrix<T> get(const Argument* a) {
        return {static_cast<T*>(a->view.buf), a->view.shape[0], a->view.shape[1]};
    }
    static const char* fault(const Argument*) { return nullptr; }
};
template <class I>
struct Parameter<Pattern<I>> {
    static constexpr Slot slots[] = {array_slot<const I>(false), array_slot<const I>(false)};
    static Pattern<I> get(const Argument* a) { return {span_of<const I>(a[0]), span_of<const I>(a[1])}; }
    static const char* fault(const Argument* a) {
        auto rows = get(a);
        if (rows.indptr.size < 1) return "row pointers with at least one entry";
        if (rows.indptr[0] != 0 || rows.first(rows.count()) < 0) return "row pointers that begin with 0";
        return rows.first(rows.count()) <= rows.indices.size ? nullptr : "row pointers that end within the entries";
    }
};
template <class I>
struct Parameter<Rows<I>> {
    static constexpr Slot slots[] = {array_slot<const I>(false), array_slot<const I>(false),
                                     array_slot<const double>(false)};
    static Rows<I> get(const Argument* a) {
        return {span_of<const I>(a[0]), span_of<const I>(a[1]), span_of<const double>(a[2])};
    }
    static const char* fault(const Argument* a) {
        auto rows = get(a);
        if (rows.indices.size != rows.data.size) return "as many entries as column indices";
        return Parameter<Pattern<I>>::fault(a);
    }
};
template <class I>
struct Parameter<Block<I>> {
    static constexpr Slot slots[] = {{'i'}, array_slot<const I>(false), array_slot<const I>(false),
                                     array_slot<const double>(false)};
    static Block<I> get(const Argument* a) { return {a->integer, Parameter<Rows<I>>::get(a + 1)}; }
    static const char* fault(const Argument* a) { return Parameter<Rows<I>>::fault(a + 1); }
};

// Results.
inline PyObject* to_python(double x) { return PyFloat_FromDouble(x); }
inline PyObject* to_python(i64 x) { return PyLong_FromLongLong(x); }
inline PyObject* to_python(bool x) { return PyBool_FromLong(x); }
inline PyObject* to_python(Done) {
    PyObject* none = reinterpret_cast<PyObject*>(&_Py_NoneStruct);
    Py_IncRef(none);
    return none;
}

inline const char* dtype_name(char number, int itemsize) {
    if (number == '?') return "bool";
    if (number == 'f') return itemsize == 8 ? "float64" : "float32";
    if (number == 'i') return itemsize == 8 ? "int64" : itemsize == 4 ? "int32" : "another integer type";
    return itemsize == 8 ? "uint64" : itemsize == 1 ? "uint8" : "another unsigned type";
}

// numpy.empty, found when the module is loaded
inline PyObject* make_array = nullptr;

template <class T>
PyObject* to_python(const Buffer<T>& from) {
    constexpr Slot slot = array_slot<T>(false);
    const char* dtype = dtype_name(slot.number, slot.itemsize);
    PyObject* made = from.columns < 0
                         ? PyObject_CallFunction(make_array, "Ls", static_cast<long long>(from.size), dtype)
                         : PyObject_CallFunction(make_array, "(LL)s", static_cast<long long>(from.matrix().rows),
                                                 static_cast<long long>(from.columns), dtype);
    Py_buffer view;
    if (made == nullptr || PyObject_GetBuffer(made, &view, written_down::BUFFER_CONTIGUOUS) != 0) return nullptr;
    std::memcpy(view.buf, from.data, static_cast<std::size_t>(from.size) * sizeof(T));
    PyBuffer_Release(&view);
    return made;
}

template <class... R>
PyObject* to_python(const std::tuple<R...>& results) {
    PyObject* tuple = PyTuple_New(sizeof...(R));
    Py_ssize_t at = 0;
    bool fine = tuple != nullptr;
    std::apply(
        [&](const auto&... part) {
            (
                [&] {
                    PyObject* made = fine ? to_python(part) : nullptr;
                    fine = fine && made != nullptr && PyTuple_SetItem(tuple, at++, made) == 0;
                }(),
                ...);
        },
        results);
    if (!fine && tuple != nullptr) Py_DecRef(tuple);
    return fine ? tuple : nullptr;
}

// One function under a name; `call` runs it, with the GIL released.
struct Overload {
    const Slot* slots;
    int count;
    const char* (*fault)(const Argument*);
    PyObject* (*call)(const Argument*);
    const Slot* results;
    int result_count;
};

template <class R>
struct Results {
    static constexpr Slot slots[] = {std::is_same_v<R, Done>      ? Slot{'-'}
                                     : std::is_same_v<R, double> ? Slot{'d'}
                                     : std::is_same_v<R, bool>   ? Slot{'?'}
                                                                 : Slot{'i'}};
};
template <class T>
struct Results<Buffer<T>> {
    static constexpr Slot slots[] = {array_slot<T>(false)};
};
template <class... R>
struct Results<std::tuple<R...>> {
    static constexpr Slot slots[] = {Results<R>::slots[0]...};
};

template <auto Function>
struct Bound;

template <class R, class... P, R (*Function)(P...)>
struct Bound<Function> {
    static constexpr int count = (static_cast<int>(std::size(Parameter<P>::slots)) + ... + 0);
    static_assert(count <= MOST_ARGUMENTS);

    struct Slots {
        Slot list[count > 0 ? count : 1];
    };
    static constexpr Slots slots = [] {
        Slots all{};
        int at = 0;
        (
            [&] {
                for (const Slot& slot : Parameter<P>::slots) all.list[at++] = slot;
            }(),
            ...);
        return all;
    }();

    static const char* fault(const Argument* a) {
        const char* found = nullptr;
        (
            [&] {
                if (found == nullptr) found = Parameter<P>::fault(a);
                a += std::size(Parameter<P>::slots);
            }(),
            ...);
        return found;
    }

    template <std::size_t... I>
    static PyObject* call_with(const Argument* a, std::index_sequence<I...>) {
        // where the arguments of each parameter begin
        static constexpr auto first = [] {
            std::array<int, sizeof...(P) + 1> at{};
            int place = 0, next = 0;
            ((at[place++] = next, next += static_cast<int>(std::size(Parameter<P>::slots))), ...);
            return at;
        }();
        failure = {};
        PyThreadState* thread = PyEval_SaveThread();
        R result = Function(Parameter<P>::get(a + first[I])...);
        PyEval_RestoreThread(thread);
        return failure.fault == Fault::none ? to_python(result) : nullptr;
    }
    static PyObject* call(const Argument* a) { return call_with(a, std::index_sequence_for<P...>{}); }

    static constexpr Overload overload{slots.list,        count, fault, call, Results<R>::slots,
                                       static_cast<int>(std::size(Results<R>::slots))};
};

struct Kernel {
    const char* name;
    const char* argument_names;
    const char* doc;
    const Overload* overloads;
    int count;
};

template <auto... Functions>
inline constexpr Overload overloads_of[] = {Bound<Functions>::overload...};

template <auto... Functions>
constexpr Kernel kernel(const char* name, const char* argument_names, const char* doc) {
    return {name, argument_names, doc, overloads_of<Functions...>, sizeof...(Functions)};
}

// A number that Python must share with a kernel.
struct Constant {
    const char* name;
    i64 value;
};

// A header of kernels, as a module of Python.
struct Subject {
    const char* name;
    const char* doc;
    const Kernel* kernels;
    int count;
    const Constant* constants = nullptr;
    int constant_count = 0;
};

template <int N>
constexpr Subject subject(const char* name, const char* doc, const Kernel (&kernels)[N]) {
    return {name, doc, kernels, N};
}
template <int N, int M>
constexpr Subject subject(const char* name, const char* doc, const Kernel (&kernels)[N],
                          const Constant (&constants)[M]) {
    return {name, doc, kernels, N, constants, M};
}

// The name of argument `at`, copied out of the list of names.
struct Name {
    char text[64];
    Name(const char* names, int at) {
        for (; at > 0 && *names != 0; ++names) at -= *names == ' ';
        int length = 0;
        for (; names[length] != 0 && names[length] != ' ' && length < 63; ++length) text[length] = names[length];
        text[length] = 0;
    }
};

inline PyObject* raise_type(const Kernel& kernel, int at, const char* wanted, const char* found) {
    return PyErr_Format(PyExc_TypeError, "%s: `%s` must be %s, found %s", kernel.name,
                        Name(kernel.argument_names, at).text, wanted, found);
}

// A number from Python; false if it is none.
inline bool read_number(PyObject* object, char kind, Argument& out) {
    if (kind == 'd') {
        out.real = PyFloat_AsDouble(object);
    } else if (kind == '?') {
        int truth = PyObject_IsTrue(object);
        out.truth = truth > 0;
        return truth >= 0;
    } else {
        PyObject* whole = PyNumber_Index(object);
        if (whole == nullptr) return false;
        if (kind == 'i')
            out.integer = PyLong_AsLongLong(whole);
        else
            out.natural = PyLong_AsUnsignedLongLong(whole);
        Py_DecRef(whole);
    }
    return PyErr_Occurred() == nullptr;
}

// A contiguous, aligned array from Python; false if it is none.
inline bool read_array(PyObject* object, Argument& out) {
    using namespace written_down;
    if (PyObject_GetBuffer(object, &out.view, BUFFER_FORMAT | BUFFER_CONTIGUOUS) != 0) return false;
    out.held = true;
    const char* format = out.view.format;
    // NumPy writes down the byte order of an array that came with one, also if it is the processor's own
    constexpr char own_order = std::endian::native == std::endian::little ? '<' : '>';
    if (format != nullptr && (format[0] == own_order || format[0] == '=' || format[0] == '@')) ++format;
    if (format == nullptr || format[0] == 0 || format[1] != 0) return true;
    switch (format[0]) {
        case '?': out.number = '?'; break;
        case 'f': case 'd': out.number = 'f'; break;
        case 'b': case 'h': case 'i': case 'l': case 'q': out.number = 'i'; break;
        case 'B': case 'H': case 'I': case 'L': case 'Q': out.number = 'u'; break;
        default: break;
    }
    if (reinterpret_cast<std::uintptr_t>(out.view.buf) % static_cast<std::size_t>(out.view.itemsize) != 0)
        out.number = 0;
    return true;
}

inline bool fits(const Slot& slot, const Argument& a) {
    if (slot.kind != 'a') return true;
    return a.number == slot.number && a.view.itemsize == slot.itemsize && (!slot.writable || !a.view.readonly) &&
           (!slot.matrix || a.view.ndim == 2);
}

inline PyObject* raise_no_fit(const Kernel& kernel, const Argument* arguments) {
    for (int at = 0; at < kernel.overloads[0].count; ++at) {
        bool any = false;
        for (int i = 0; i < kernel.count; ++i) any = any || fits(kernel.overloads[i].slots[at], arguments[at]);
        if (any) continue;
        const Slot& slot = kernel.overloads[0].slots[at];
        const Argument& a = arguments[at];
        if (slot.writable && a.view.readonly) return raise_type(kernel, at, "writable", "a read-only array");
        if (slot.matrix && a.view.ndim != 2) return raise_type(kernel, at, "a table", "another number of dimensions");
        const char* found = a.number == 0 ? "numbers of another kind, or not aligned"
                                          : dtype_name(a.number, static_cast<int>(a.view.itemsize));
        return raise_type(kernel, at, dtype_name(slot.number, slot.itemsize), found);
    }
    return PyErr_Format(PyExc_TypeError, "%s: index arrays must be all of the types that belong together", kernel.name);
}

// Arrays are given back however a call ends.
struct Arguments {
    Argument list[MOST_ARGUMENTS];
    int count = 0;
    ~Arguments() {
        for (int i = 0; i < count; ++i)
            if (list[i].held) PyBuffer_Release(&list[i].view);
    }
};

inline PyObject* call(PyObject* self, PyObject* const* objects, Py_ssize_t n) {
    const Kernel& kernel = *static_cast<const Kernel*>(PyCapsule_GetPointer(self, nullptr));
    const Overload& first = kernel.overloads[0];
    if (n != first.count)
        return PyErr_Format(PyExc_TypeError, "%s takes %d arguments, found %zd", kernel.name, first.count, n);
    Arguments arguments;
    for (int at = 0; at < first.count; ++at) {
        char kind = first.slots[at].kind;
        ++arguments.count;
        if (kind == 'a' ? read_array(objects[at], arguments.list[at])
                        : read_number(objects[at], kind, arguments.list[at]))
            continue;
        PyErr_Clear();
        const char* wanted = kind == 'a'   ? "a contiguous array"
                             : kind == 'd' ? "a number"
                             : kind == '?' ? "True or False"
                             : kind == 'i' ? "an integer of 64 bits"
                                           : "a non-negative integer of 64 bits";
        return raise_type(kernel, at, wanted, kind == 'a' ? "something else, or one with gaps" : "something else");
    }
    for (int i = 0; i < kernel.count; ++i) {
        const Overload& overload = kernel.overloads[i];
        bool matches = true;
        for (int at = 0; at < overload.count && matches; ++at) matches = fits(overload.slots[at], arguments.list[at]);
        if (!matches) continue;
        if (const char* fault = overload.fault(arguments.list))
            return PyErr_Format(PyExc_ValueError, "%s needs %s", kernel.name, fault);
        PyObject* result = overload.call(arguments.list);
        if (failure.fault == Fault::requirement)
            return PyErr_Format(PyExc_ValueError, "%s needs %s", kernel.name, failure.text);
        return failure.fault == Fault::memory ? PyErr_NoMemory() : result;
    }
    return raise_no_fit(kernel, arguments.list);
}

inline PyMethodDef* method_of(const Kernel& kernel) {
    // functions live as long as the process, and so do their definitions
    auto* method = static_cast<PyMethodDef*>(std::malloc(sizeof(PyMethodDef)));
    if (method != nullptr)
        *method = {kernel.name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call)),
                   written_down::FASTCALL, kernel.doc};
    return method;
}

// The types of all arguments and results, such as "int32/int64 out:table:float64 float -> None", which stubs are written
// from: "out:" is what a kernel writes into, "table:" has two dimensions.
struct Signature {
    char text[2048];
    int length = 0;

    explicit Signature(const Kernel& kernel) {
        const Overload& first = kernel.overloads[0];
        for (int at = 0; at < first.count; ++at) add_slot(kernel, at, false);
        add("->");
        for (int at = 0; at < first.result_count; ++at) add_slot(kernel, at, true);
        text[length] = 0;
    }
    void add_part(const char* word) {
        for (; *word != 0 && length < 2046; ++word) text[length++] = *word;
    }
    void add(const char* word) {
        add_part(word);
        if (length < 2047) text[length++] = ' ';
    }
    void add_slot(const Kernel& kernel, int at, bool result) {
        for (int i = 0; i < kernel.count; ++i) {
            const Slot& slot = result ? kernel.overloads[i].results[at] : kernel.overloads[i].slots[at];
            if (i == 0 && !result && slot.writable) add_part("out:");
            if (i == 0 && !result && slot.matrix) add_part("table:");
            add(slot.kind == 'a'   ? dtype_name(slot.number, slot.itemsize)
                : slot.kind == 'd' ? "float"
                : slot.kind == '?' ? "truth"
                : slot.kind == '-' ? "None"
                                   : "int");
            text[length - 1] = '/';
        }
        text[length - 1] = ' ';
    }
};

}  // namespace cautious
