// hierarchy/domain/domain_impl.cpp -- when a commit is acknowledged, and whether one may be made.
#include "hierarchy/domain/domain_impl.h"

#include <utility>

#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::detail {

DomainImpl::DomainImpl(std::string folder, DomainOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

Errc DomainImpl::acknowledge_lines(std::uint64_t line, Durability durability) noexcept {
  if (!must_wait(Status::kCommitted, durability)) return Errc::kOk;
  TMH_ASSERT(parts_.durable != nullptr);
  const auto open = keep_open();
  TMH_TRY(usable());
  return parts_.durable->log().group().wait_lower(line);
}

// When a strict commit returns, everything that it read and wrote is durable (docs/design.md D1).
bool DomainImpl::must_wait(Status status, Durability durability) const noexcept {
  if (parts_.durable == nullptr || status != Status::kCommitted) return false;
  const bool waits =
      durability == Durability{} ? parts_.durable->is_strict() : durability == Durability::kStrict;
  if (!waits) storage::note_early_acknowledgement(&parts_.memory->control().header);
  return waits;
}

// REQUIRES that the domain stays open.
Errc DomainImpl::check_commits() const noexcept {
  return parts_.durable == nullptr ? Errc::kOk : parts_.durable->log().group().check_writable();
}

}  // namespace tmh::detail
