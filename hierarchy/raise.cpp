// hierarchy/raise.cpp -- an Errc as the exception that a program catches.
#include "hierarchy/raise.h"

#include "platform/failure.h"

namespace tmh::detail {

void raise(Errc code) { throw Error(code, platform::failure_detail()); }

}  // namespace tmh::detail
