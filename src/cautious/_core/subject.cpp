// One subject: the kernels of CAUTIOUS_HEADER, in the namespace CAUTIOUS_SUBJECT, for the list in module.cpp.
#include CAUTIOUS_HEADER

#define CAUTIOUS_JOINED(prefix, name) prefix##name
#define CAUTIOUS_WITH(prefix, name) CAUTIOUS_JOINED(prefix, name)

namespace cautious {
extern const Subject& CAUTIOUS_WITH(subject_, CAUTIOUS_SUBJECT);
const Subject& CAUTIOUS_WITH(subject_, CAUTIOUS_SUBJECT) = CAUTIOUS_SUBJECT::listed;
}  // namespace cautious
