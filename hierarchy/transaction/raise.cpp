// hierarchy/transaction/raise.cpp -- an Errc as the exception that a program catches.
#include "hierarchy/transaction/raise.h"

#include "platform/failure.h"

namespace tmh::detail {

void raise(Errc code) { throw Error(code, platform::failure_detail()); }

}  // namespace tmh::detail
