// hierarchy/transaction/hardware_attempts.cpp -- a site's instance in RTM: begin, commit, and what
// follows an abort.
#include "hierarchy/transaction/hardware_attempts.h"

#include <type_traits>

#include "hierarchy/transaction/raise.h"
#include "hierarchy/transaction/rtm_aborts.h"
#include "levels/line/rtm_thread.h"
#include "observe/probes.h"
#include "platform/assert.h"
#include "platform/protection_keys.h"
#include "platform/ticks.h"

namespace tmh::detail {

using hierarchy::Failed;
using hierarchy::HardwareCount;
using line::AbortCode;
using line::AbortStatus;

static_assert(std::is_trivially_destructible_v<HardwareAttempts>);

namespace {

// Each try follows other processes' moves of pages, or a mode switch of this one. When so many in a
// row were in vain, others change them faster than this instance runs: it goes on at level 2, where
// it needs no other process.
constexpr std::uint32_t kGateTriesMax = 16;

// The views are open to this thread between attempts in RTM, and shut when the site leaves that
// without a commit. What leave_open() stores inside the transaction an abort takes back.
class OpenUntilCommit {
 public:
  explicit OpenUntilCommit(int key) noexcept : key_(key) {}
  OpenUntilCommit(const OpenUntilCommit &) = delete;
  OpenUntilCommit &operator=(const OpenUntilCommit &) = delete;
  ~OpenUntilCommit() {
    if (key_ != platform::kNoKey && shuts_)
      platform::set_key_access(key_, platform::KeyAccess::kShut);
  }
  void open() const noexcept {
    if (key_ != platform::kNoKey) platform::set_key_access(key_, platform::KeyAccess::kOpen);
  }
  void leave_open() noexcept { shuts_ = false; }

 private:
  const int key_;
  bool shuts_ = true;
};

}  // namespace

bool HardwareAttempts::begin(SiteInstance &instance) {
  LineDomain &lines = *instance.domain().lines();
  Errc error = Errc::kOk;
  TMH_ASSERT(lines.hardware() != nullptr && current().hardware.depth == 0);
  line::SoftwareThread *software = lines.thread(&error);
  if (software == nullptr) {  // no context to count in: level 2 needs none
    instance.failed(Failed::kAtThisLevel);
    return false;
  }
  // A line that a transaction writes costs less when no store precedes the transaction.
  if (current().hardware.context != &software->context())
    current().hardware.context = &software->context();
  line::RtmThreadBehind<hierarchy::HardwareLines> thread(*lines.hardware());
  // Before XBEGIN, for WRPKRU aborts; end() shuts it.
  OpenUntilCommit open(instance.domain().memory().view_key());
  for (;;) {
    instance.start_timing();
    observe::probe::begin(observe::probe::kLines, 0, observe::probe::kUpdateInRtm);
    open.open();
    if (thread.begin({})) {
      current().hardware.domain = &lines;
      current().hardware.depth = 1;
      open.leave_open();
      return true;
    }
    if (!tries_again(instance, thread.status())) return false;
  }
}

void HardwareAttempts::end(SiteInstance &instance) {
  TMH_ASSERT(current().hardware.depth == 1 && current().hardware.context != nullptr);
  current().hardware.depth = 0;
  // Inside: so it counts exactly when the transaction has committed, whichever process dies when.
  current().hardware.context->add(line::LineCount::kHardwareCommits, 1);
  line::rtm_end();
  SiteImpl &site = instance.site();
  if (const int key = site.domain().memory().view_key(); key != platform::kNoKey)
    platform::set_key_access(key, platform::KeyAccess::kShut);
  observe::probe::commit(observe::probe::kLines, 0, 0);
  site.add(SiteCount::kHardwareCommits, 1);
  if (instance.timed().count != 0)
    site.committed_at_lines(instance.timed(), LatencyLevel::kHardware);
  learn_line_commit(site, instance.kind(), *current().hardware.context);
  instance.leave_lines();
}

bool HardwareAttempts::tries_again(SiteInstance &instance, AbortStatus status) {
  TMH_ASSERT(current().hardware.depth == 0);
  SiteImpl &site = instance.site();
  LineDomain &lines = *instance.domain().lines();
  const Counted counted = counted_as(status);
  const auto status_bits = static_cast<std::uint32_t>(status);
  observe::probe::hardware_abort(status_bits, status_bits >> 24);
  site.add(counted.of_site, 1);
  lines.directory().hardware().add(counted.of_domain);
  instance.count_time_of_failed();
  Undone undone;
  if (counted.of_site == SiteCount::kHardwareGate) {
    undone.refusal = await_gate(instance, status);
    if (undone.refusal == Refusal::kNone) return true;
  } else {
    site.record(instance.timed(), LatencyLevel::kHardware, line::cause_of(status));
    site.add(SiteCount::kLineAborts, 1);
  }
  gate_tries_ = 0;
  // retry() sleeps at level 2; whatever else is without a reason is found out there.
  const bool is_retry = line::code_of(status) == AbortCode::kRetry;
  if (is_retry || status == AbortStatus{0}) {
    if (!is_retry && ++zeros_ < kZeroAbortsMax) {
      // What the gate reads may be absent here as well: the record of a participant that came late.
      // Level 2 need not touch it.
      (void)lines.hardware()->shut_by();
      // Or the page of its totals is not writable yet, or no more.
      current().hardware.context->add(line::LineCount::kHardwareCommits, 0);
      return true;
    }
    instance.failed(Failed::kWithoutReason);
    site.add(SiteCount::kHardwareFindings, 1);
    return false;
  }
  undone.over_capacity = counted.of_site == SiteCount::kHardwareCapacity;
  undone.needs_pages = counted.of_site == SiteCount::kHardwareExplicit;
  undone.need = line::need_of(status);
  return instance.goes_on_at_level_1(undone);
}

Refusal HardwareAttempts::await_gate(SiteInstance &instance, AbortStatus status) {
  DomainImpl &domain = instance.domain();
  LineDomain &lines = *domain.lines();
  check(domain.usable());
  const bool too_often = ++gate_tries_ > kGateTriesMax;
  const Refusal in_vain = too_often ? Refusal::kByGuests : Refusal::kNone;
  if (line::code_of(status) == AbortCode::kFollow) {
    lines.hardware()->follow();
    return in_vain;
  }
  const LineDomain::UpperLeft left = lines.await_upper();
  if (left == LineDomain::UpperLeft::kHosts) return Refusal::kByHosts;
  if (left != LineDomain::UpperLeft::kNobody) return Refusal::kByGuests;
  // A refused instance stays in page mode.
  if (!too_often) check(domain.line_mode().enter());
  return in_vain;
}

void HardwareAttempts::give_pages_back(const SiteInstance &instance) {
  TMH_ASSERT(!instance.is_query());
  SiteImpl &site = instance.site();
  const bool was_finding = instance.state() == SiteInstance::State::kFindPages;
  hierarchy::Learned learned = site.learned(instance.kind());
  const bool goes_on_in_hardware = site.escalation().kind != EscalationKind::kAlways &&
                                   learned.own.page_runs == 0 && learned.refused.page_runs == 0;
  if (!was_finding && !goes_on_in_hardware) return;
  const LineDomain::Given given = site.domain().line_mode().give_to_hardware();
  if (!was_finding) return;
  site.add(SiteCount::kHardwarePages, given.fresh);
  if (given.fresh != 0 || !given.is_complete || !hierarchy::learns(site.escalation())) return;
  // All were accessible before: something else aborts the site, a system call perhaps.
  learned.own = hierarchy::after_escalation(learned.own);
  site.learn(instance.kind(), learned);
}

}  // namespace tmh::detail
