// hierarchy/api/handles.h -- what the handles of the public interface share: the domain behind one,
// and the refusal of a call that would store for a query.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <memory>
#include <string>

#include <tmh/domain.hpp>

namespace tmh::detail {

class DomainImpl;

[[nodiscard]] std::shared_ptr<DomainImpl> impl_of(const Domain &domain) noexcept;

// Does this thread run a query of level 2?
[[nodiscard]] bool is_page_query_here() noexcept;
// Throws Error(kQueryWrote). what: the library's call that stores, as "allocation".
[[noreturn]] void raise_query_wrote(const std::string &segment, const char *what);

}  // namespace tmh::detail
