// hierarchy/domain/domain_impl.cpp -- may a domain be used, when is a commit acknowledged, which
// sleepers are woken; the end of a DomainImpl.
#include "hierarchy/domain/domain_impl.h"

#include "hierarchy/domain/opening.h"
#include "hierarchy/threads/end_of_thread.h"
#include "hierarchy/threads/leave_hardware.h"
#include "platform/failure.h"

namespace tmh::detail {

using platform::fail;

DomainImpl::DomainImpl(std::string folder, DomainOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

Errc DomainImpl::close() noexcept { return Opening::close(*this); }

void DomainImpl::destroy(DomainImpl *domain) noexcept {
  if (platform::fork_generation() == domain->fork_generation_) {
    delete domain;
    return;
  }
  // A forked child: mappings and slot are the parent's, and any container may be half changed by a
  // thread that the child does not have.
  static constinit std::atomic<DomainImpl *> newest{nullptr};
  domain->left_before_ = newest.exchange(domain, std::memory_order_relaxed);
}

DomainImpl::~DomainImpl() {
  if (!open_.load(std::memory_order_acquire)) return;
  // The last handle went inside an instance, e.g. by an exception.
  if (runners_.runs_here()) abort_open_instance(LeftBy::kLastHandle);
  // what the housekeeper uses goes before it
  if (close() != Errc::kOk && durable_ != nullptr) durable_->stop();
}

Errc DomainImpl::why_unusable() const noexcept {
  if (platform::fork_generation() != fork_generation_)
    return fail(Errc::kDetached,
                "this process was forked from a participant; open the domain here");
  return fail(Errc::kNotInitialized, "the domain is closed");
}

// From before its instance until after it, but not while its actions run. By the thread's own word:
// another thread may be closing.
bool DomainImpl::runs_at_lines(Need asks) const noexcept {
  leave_hardware(asks);
  return line_users_.is_inside();
}

bool DomainImpl::runs_at_any_level(Need asks) const noexcept {
  return runs_at_lines(asks) || runners_.runs_here();
}

Errc DomainImpl::acknowledge_lines(std::uint64_t line, Durability durability) noexcept {
  if (!must_wait(Status::kCommitted, durability)) return Errc::kOk;
  const auto open = keep_open();
  TMH_TRY(usable());
  return durable_->log().wait_lower(line);
}

// When a strict commit returns, everything that it read and wrote is durable (docs/design.md D1).
bool DomainImpl::must_wait(Status status, Durability durability) const noexcept {
  if (durable_ == nullptr || status != Status::kCommitted) return false;
  const bool waits =
      durability == Durability{} ? durable_->is_strict() : durability == Durability::kStrict;
  if (!waits) storage::note_early_acknowledgement(&memory_->control().header);
  return waits;
}

void DomainImpl::wake_sleepers() noexcept {
  memory_->state().changed.notify();
  if (lines_ != nullptr) lines_->memory().state().changed.notify();
}

// REQUIRES that the domain stays open.
Errc DomainImpl::check_commits() const noexcept {
  return durable_ == nullptr ? Errc::kOk : durable_->log().check_writable();
}

}  // namespace tmh::detail
