// hierarchy/hardware_sites.cpp -- a site's instance in RTM: begin, commit, and what follows an
// abort.
// Control:   an abort, wherever in the body, comes back in begin_hardware(), with memory (locals
//            and the stack too) and registers as they were there; so every line below
//            `thread.begin()` that is not reached by a commit is outside a transaction.
// Source:    docs/design.md 4 and 5; hierarchy/PROTOCOL.md, "Hardware lines"; Intel SDM vol. 1,
//            chapter 16.
#include "hierarchy/site_impl.h"
#include "levels/line/rtm.h"
#include "platform/probes.h"
#include "platform/protection_keys.h"
#include "platform/ticks.h"

namespace tmh::detail {

using hierarchy::HardwareCount;
using line::AbortCode;
using line::AbortStatus;

namespace {

// Each try follows other processes' moves of pages, or a mode switch of this one. When so many in a
// row were in vain, others change them faster than this instance runs: it goes on at level 2, where
// it needs nobody.
constexpr std::uint32_t kGateTriesMax = 16;
// An abort without a reason may be an interrupt; a second one in the same instance hardly is.
constexpr std::uint32_t kZerosMax = 2;

struct Counted {
  SiteCount of_site;
  HardwareCount of_domain;
};
Counted counted_as(AbortStatus status) noexcept {
  switch (line::code_of(status)) {
    case AbortCode::kFollow:
      return {SiteCount::kHardwareGate, HardwareCount::kAbortsFollow};
    case AbortCode::kUpperRuns:
      return {SiteCount::kHardwareGate, HardwareCount::kAbortsUpperRuns};
    case AbortCode::kPageMode:
      return {SiteCount::kHardwareGate, HardwareCount::kAbortsPageMode};
    case AbortCode::kNeedsPages:
    case AbortCode::kRetry:
    case AbortCode::kUser:
      return {SiteCount::kHardwareExplicit, HardwareCount::kAbortsExplicit};
    default:
      break;
  }
  if (line::has(status, line::kStatusCapacity))
    return {SiteCount::kHardwareCapacity, HardwareCount::kAbortsCapacity};
  if (line::has(status, line::kStatusConflict))
    return {SiteCount::kHardwareConflicts, HardwareCount::kAbortsConflict};
  if (status == AbortStatus{0}) return {SiteCount::kHardwareZero, HardwareCount::kAbortsZero};
  return {SiteCount::kHardwareOther, HardwareCount::kAbortsOther};
}

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

// True: inside the transaction. False: the attempt is one of level 2.
bool Attempts::begin_hardware() {
  LineDomain &lines = *site_.impl_->domain().lines();
  Errc error = Errc::kOk;
  line::SoftwareThread *software = lines.thread(&error);
  if (software == nullptr) {  // no context to count in: level 2 needs none
    escalated_ = true;
    return false;
  }
  // A line that a transaction writes costs less when nobody has stored to it before.
  if (hardware_run.context != &software->context()) hardware_run.context = &software->context();
  line::RtmThreadBehind<hierarchy::HardwareLines> thread(*lines.hardware());
  runs_at_ = RunsAt::kHardware;
  // Before XBEGIN, for WRPKRU aborts; end_hardware() shuts it.
  OpenUntilCommit open(site_.impl_->domain().memory().view_key());
  for (;;) {
    start_timing();
    platform::probe::begin(platform::probe::kLines, 0, 0);
    open.open();
    if (thread.begin({})) {
      hardware_run.domain = &lines;
      hardware_run.depth = 1;
      open.leave_open();
      return true;
    }
    if (!try_hardware_again(static_cast<std::uint32_t>(thread.status()))) return false;
  }
}

void Attempts::end_hardware() {
  hardware_run.depth = 0;
  // Inside: so it counts exactly when the transaction has committed, whoever dies when.
  hardware_run.context->add(line::LineCount::kHardwareCommits, 1);
  line::rtm_end();
  SiteImpl &site = *site_.impl_;
  if (const int key = site.domain().memory().view_key(); key != platform::kNoKey)
    platform::set_key_access(key, platform::KeyAccess::kShut);
  platform::probe::commit(platform::probe::kLines, 0, 0);
  site.add(SiteCount::kHardwareCommits, 1);
  if (timed_count_ != 0) site.committed_at_lines({ticks_, timed_count_}, LatencyLevel::kHardware);
  learn_line_commit(site, kind_, *hardware_run.context);
}

// After an abort. True: in RTM again.
bool Attempts::try_hardware_again(std::uint32_t status_bits) {
  const AbortStatus status{status_bits};
  SiteImpl &site = *site_.impl_;
  DomainImpl &domain = site.domain();
  LineDomain &lines = *domain.lines();
  const Counted counted = counted_as(status);
  platform::probe::hardware_abort(status_bits, status_bits >> 24);
  site.add(counted.of_site, 1);
  lines.directory().hardware().add(counted.of_domain);
  count_time_of_failed();
  bool refused = false;
  if (counted.of_site == SiteCount::kHardwareGate) {
    check(domain.usable());
    refused = ++gate_tries_ > kGateTriesMax;
    hosts_stay_ = false;
    if (line::code_of(status) == AbortCode::kFollow) {
      lines.hardware()->follow();
    } else if (const auto left = lines.await_upper(); left != LineDomain::UpperLeft::kNobody) {
      hosts_stay_ = left == LineDomain::UpperLeft::kHosts;
      refused = true;
    } else if (!refused) {  // who is refused stays in page mode
      check(domain.enter_line_mode());
    }
    if (!refused) return true;
  } else {
    site.record({ticks_, timed_count_}, LatencyLevel::kHardware, line::cause_of(status));
    site.add(SiteCount::kLineAborts, 1);
  }
  gate_tries_ = 0;
  // retry() sleeps at level 2; whatever else is without a reason is found out there.
  const bool is_retry = line::code_of(status) == AbortCode::kRetry;
  if (is_retry || status == AbortStatus{0}) {
    if (!is_retry && ++zeros_ < kZerosMax) {
      // What the gate reads may be absent here as well: the record of a participant who came late.
      // Level 2 need not touch it.
      (void)lines.hardware()->shut_by();
      hardware_run.context->add(line::LineCount::kHardwareCommits,
                                0);  // or the page of its totals is not writable yet, or no more
      return true;
    }
    escalated_ = finding_ = true;
    site.add(SiteCount::kHardwareFindings, 1);
    return false;
  }
  return goes_on_at_lines(counted.of_site == SiteCount::kHardwareCapacity,
                          counted.of_site == SiteCount::kHardwareExplicit, refused, false);
}

// An update has committed at level 2. When the next one is to run in RTM, its pages must not have
// to be found: they are known.
void Attempts::give_pages_back() {
  SiteImpl &site = *site_.impl_;
  hierarchy::Learned learned = site.learned(kind_);
  const bool goes_on_in_hardware = site.escalation().kind != EscalationKind::kAlways &&
                                   learned.own.page_runs == 0 && learned.gate.page_runs == 0;
  if (!finding_ && !goes_on_in_hardware) return;
  const LineDomain::Given given = site.domain().give_to_hardware();
  if (!finding_) return;
  finding_ = false;
  site.add(SiteCount::kHardwarePages, given.fresh);
  if (given.fresh != 0 || !given.is_complete || !hierarchy::learns(site.escalation())) return;
  // All were accessible before: something else aborts the site, a system call perhaps.
  learned.own = hierarchy::after_escalation(learned.own);
  site.learn(kind_, learned);
}

}  // namespace tmh::detail
