// tools/doctor/doctor.cpp -- tmh doctor: collects, judges, prints.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "platform/assert.h"
#include "tools/commands.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

using namespace doctor;

Json trial_json(const RtmTrial &trial) {
  Json aborts = Json::array();
  for (const auto &[status, count] : trial.aborts)
    aborts.push_back({{"status", status}, {"count", count}});
  return {{"made", trial.was_made},
          {"illegal_instruction", trial.was_illegal},
          {"attempts", trial.attempts},
          {"commits", trial.commits},
          {"aborts", std::move(aborts)}};
}

Json json_of(const Facts &facts, const Findings &findings) {
  Json list = Json::array();
  for (const Finding &one : findings) {
    Json json{{"area", one.area},
              {"subject", one.subject},
              {"verdict", to_string(one.verdict)},
              {"found", one.found}};
    if (one.verdict != Verdict::kYes) {
      json["cause"] = one.cause;
      json["remedy"] = one.remedy;
    }
    list.push_back(std::move(json));
  }
  const StorageFacts &storage = facts.storage;
  return {{"document", "tmh-doctor-1"},
          {"kernel", facts.pages.kernel_release},
          {"rtm_trial", trial_json(facts.rtm.trial)},
          {"tracking", facts.pages.trials.tracking},
          {"topology",
           {{"packages", facts.topology.packages},
            {"numa_nodes", facts.topology.numa_nodes},
            {"cores", facts.topology.cores},
            {"threads", facts.topology.threads},
            {"line_bytes", facts.topology.line_bytes},
            {"l1d_bytes", facts.topology.l1d_bytes},
            {"l1d_ways", facts.topology.l1d_ways}}},
          {"pmu", facts.counters.pmu},
          {"storage",
           {{"folder", storage.folder},
            {"file_system", storage.file_system},
            {"free_bytes", storage.free_bytes},
            {"fdatasync_us", storage.sync_us_median},
            {"direct_us", storage.direct_us_median}}},
          {"findings", std::move(list)}};
}

// Text behind a margin, broken between words.
std::string wrapped(const std::string &text, std::size_t margin, const std::string &first) {
  constexpr std::size_t kColumns = 120;
  TMH_ASSERT(first.size() <= margin && margin < kColumns);
  std::string out, line = first;
  line.resize(margin, ' ');
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const bool is_first = line.size() <= margin;
    if (!is_first && line.size() + 1 + end - at > kColumns) {
      out += line + "\n";
      line.assign(margin, ' ');
    } else if (!is_first) {
      line += ' ';
    }
    line += text.substr(at, end - at);
    at = end + 1;
  }
  return out + line + "\n";
}

// To be told once: what several events lack has one reason.
bool are_alike(const Finding &one, const Finding &other) {
  return one.verdict != Verdict::kYes && one.verdict == other.verdict && one.area == other.area &&
         one.found == other.found && one.cause == other.cause && one.remedy == other.remedy;
}

std::string text_of(const Findings &findings) {
  constexpr std::size_t kMargin = 11;
  static const std::map<std::string, std::string> kTitles = {
      {"rtm", "RTM (hardware transactions, level 1)"},
      {"pages", "Pages (level 2)"},
      {"topology", "Topology"},
      {"counters", "Counters"},
      {"storage", "Storage"}};
  std::string out, area;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding &one = findings[i];
    TMH_ASSERT(kTitles.contains(one.area));
    if (one.area != area) out += (area.empty() ? "" : "\n") + kTitles.at(one.area) + "\n";
    area = one.area;
    std::string subjects = one.subject;
    while (i + 1 < findings.size() && are_alike(one, findings[i + 1]))
      subjects += ", " + findings[++i].subject;
    out +=
        wrapped(subjects + ": " + one.found, kMargin, std::string("  ") + to_string(one.verdict));
    if (one.verdict == Verdict::kYes) continue;
    out += wrapped("cause:  " + one.cause, kMargin + 2, "");
    out += wrapped("remedy: " + one.remedy, kMargin + 2, "");
  }
  return out;
}

}  // namespace

Exit run(const DoctorCommand &command) {
  const Facts facts = collect(this_machine(), command.folder);
  const Findings findings = judge(facts);
  if (command.json)
    print(json_of(facts, findings));
  else
    print(text_of(findings));
  return Exit::kOk;
}

}  // namespace tmh::tools
