// tools/doctor/finding.cpp -- all areas; what the judges share.
#include "tools/doctor/finding.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "platform/assert.h"

namespace tmh::tools::doctor {

const char *to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kYes:
      return "yes";
    case Verdict::kLimited:
      return "limited";
    case Verdict::kNo:
      break;
  }
  return "no";
}

Findings judge(const Facts &facts) {
  Findings all = judge_rtm(facts.rtm);
  for (Findings part : {judge_pages(facts.pages, facts.counters), judge_topology(facts.topology),
                        judge_counters(facts.counters, facts.pages.may_perfmon,
                                       facts.rtm.processor.under_hypervisor),
                        judge_storage(facts.storage)})
    all.insert(all.end(), std::make_move_iterator(part.begin()),
               std::make_move_iterator(part.end()));
  TMH_ASSERT(!all.empty());
  return all;
}

void Judge::add(Verdict verdict, std::string subject, std::string found, std::string cause,
                std::string remedy) {
  TMH_ASSERT(!subject.empty() && !found.empty());
  TMH_ASSERT(verdict == Verdict::kYes || (!cause.empty() && !remedy.empty()));
  findings_.push_back(
      {area_, std::move(subject), verdict, std::move(found), std::move(cause), std::move(remedy)});
}
void Judge::yes(std::string subject, std::string found) {
  add(Verdict::kYes, std::move(subject), std::move(found), {}, {});
}
void Judge::limited(std::string subject, std::string found, std::string cause, std::string remedy) {
  add(Verdict::kLimited, std::move(subject), std::move(found), std::move(cause), std::move(remedy));
}
void Judge::no(std::string subject, std::string found, std::string cause, std::string remedy) {
  add(Verdict::kNo, std::move(subject), std::move(found), std::move(cause), std::move(remedy));
}

std::string error_text(int error) {
  TMH_ASSERT(error != 0);
  const char *name = strerrorname_np(error);
  return std::string(name == nullptr ? "error" : name) + " (" + std::strerror(error) + ")";
}

}  // namespace tmh::tools::doctor
