// tools/doctor/finding.h -- the judgement: a pure function of the facts.
// Invariant: whatever is not yes has a cause and a remedy (or says that there is none).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/assert.h"
#include "tools/doctor/facts.h"

namespace tmh::tools::doctor {

enum class Verdict : std::uint8_t { kYes, kLimited, kNo };
[[nodiscard]] const char *to_string(Verdict verdict) noexcept;  // "yes", "limited", "no"

struct Finding {
  std::string area;     // "rtm", "pages", "topology", "counters", "storage"
  std::string subject;  // what one would like to have
  Verdict verdict = Verdict::kYes;
  std::string found;  // what is there
  std::string cause;  // empty when yes
  std::string remedy;
};
using Findings = std::vector<Finding>;

[[nodiscard]] Findings judge(const Facts &facts);

[[nodiscard]] Findings judge_rtm(const RtmPart &facts);
[[nodiscard]] Findings judge_pages(const PagePart &facts, const CounterPart &counters);
[[nodiscard]] Findings judge_topology(const TopologyPart &facts);
[[nodiscard]] Findings judge_counters(const CounterPart &facts, bool may_perfmon, bool is_virtual);
[[nodiscard]] Findings judge_storage(const StorageFacts &facts);

// For the judges: findings of one area, one line each.
class Judge {
 public:
  explicit Judge(const char *area) : area_(area) { TMH_ASSERT(area != nullptr); }
  void yes(std::string subject, std::string found);
  void limited(std::string subject, std::string found, std::string cause, std::string remedy);
  void no(std::string subject, std::string found, std::string cause, std::string remedy);
  [[nodiscard]] Findings take() { return std::move(findings_); }

 private:
  void add(Verdict verdict, std::string subject, std::string found, std::string cause,
           std::string remedy);
  const char *area_;
  Findings findings_;
};

// "EPERM (Operation not permitted)".
[[nodiscard]] std::string error_text(int error);

}  // namespace tmh::tools::doctor
