// tools/info.cpp -- tmh info: what a domain's folder holds. Says what is wrong with a part and goes
// on with the next.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include <tmh/options.hpp>

#include "hierarchy/exchange/exchange.h"
#include "levels/line/layout.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "storage/log/log_source.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/info.h"
#include "tools/moment.h"
#include "tools/print.h"
#include "tools/shared_counters.h"

namespace tmh::tools {

using storage::CheckpointV1;
using storage::ControlFile;
using storage::SegmentRecordV1;

namespace {

// One document, made once; the text is printed from it.
class Info {
 public:
  explicit Info(std::string folder) : folder_(std::move(folder)), control_(read_control(folder_)) {
    gather_domain();
    gather_hardware();
    gather_segments();
    if (control_->header.durability != 0) gather_checkpoint_and_log();
    if (problems_.empty())
      if (std::string other = displaced_file(folder_, *control_); !other.empty())
        problems_.push_back(std::move(other));
    document_["problems"] = problems_;
  }
  [[nodiscard]] DomainInfo take() { return {std::move(document_), std::move(problems_)}; }

 private:
  void gather_domain() {
    const storage::ControlHeaderV1 &header = control_->header;
    const auto stored = static_cast<Durability>(header.durability == 0 ? 1 : header.durability);
    Json participants = Json::array();
    for (const LiveParticipant &one : live_participants(folder_))
      participants.push_back({{"slot", one.slot}, {"pid", one.pid}, {"name", one.name}});
    document_ =
        Json{{"folder", folder_},
             {"domain_id", fmt::format("{:016x}{:016x}", header.domain_id[0], header.domain_id[1])},
             {"format_version", header.format_version},
             {"owner_uid", header.owner_uid},
             {"durability", to_string(stored)},
             {"open", !participants.empty()}};
    if (!participants.empty() && header.detection != 0)
      document_["detection"] = to_string(static_cast<Detection>(header.detection));
    document_["participants"] = std::move(participants);
  }

  // Of a hybrid domain that is open: totals of RTM.
  void gather_hardware() {
    const std::string path = folder_ + "/tmh.line.state";
    std::string bytes;
    if (document_["participants"].empty() || !file_facts(path).exists) return;
    if (platform::read_file(path, 1u << 20, &bytes) != Errc::kOk ||
        bytes.size() < sizeof(line::LineStateV1))
      return;
    std::uint64_t counts[line::kHardwareCountsMax];
    static_assert(sizeof counts == sizeof(line::LineStateV1::hardware_counts));
    static_assert(static_cast<std::size_t>(hierarchy::HardwareCount::kEnd) <=
                  line::kHardwareCountsMax);
    std::uint32_t version = 0;
    std::memcpy(&version, bytes.data() + offsetof(line::LineStateV1, version), sizeof version);
    if (version != line::kLineStateVersion) return;
    std::memcpy(counts, bytes.data() + offsetof(line::LineStateV1, hardware_counts), sizeof counts);
    Json hardware = Json::object();
    for (std::size_t i = 0; i < static_cast<std::size_t>(hierarchy::HardwareCount::kEnd); ++i)
      hardware[hierarchy::hardware_count_name(static_cast<hierarchy::HardwareCount>(i))] =
          counts[i];
    hardware["commits"] = read_counters(folder_).total.hardware_commits;
    document_["hardware"] = std::move(hardware);
  }

  void gather_segments() {
    Json segments = Json::array();
    for (std::uint32_t number = 0; number < storage::kSegmentsMax; ++number) {
      const SegmentRecordV1 &record = control_->segments[number];
      if (!storage::is_used(record)) continue;
      const std::string path = segment_path(folder_, record);
      const FileFacts facts = file_facts(path);
      segments.push_back(
          {{"number", number},
           {"name", record.name},
           {"layout", record.layout == 1 ? "heap" : "raw"},
           {"size_bytes", record.size_bytes},
           {"max_bytes", record.max_bytes},
           {"offset_bytes", record.offset_bytes},
           {"address", record.address == 0 ? "relocatable" : fmt::format("{:#x}", record.address)},
           {"file_bytes", facts.bytes},
           {"disk_bytes", facts.disk_bytes}});
      if (!facts.exists) {
        problems_.push_back(path + ": the data file of a segment is missing");
      } else if (facts.bytes < record.offset_bytes + record.size_bytes) {
        problems_.push_back(path + ": shorter than its segment");
      }
    }
    document_["segments"] = std::move(segments);
  }

  void gather_checkpoint_and_log() {
    const CheckpointSlots slots = read_checkpoint(folder_, *control_);
    Json list = Json::array();
    for (int i = 0; slots.exists && i < 2; ++i) list.push_back(slot_json(slots, i));
    document_["checkpoint"] = std::move(list);
    if (!slots.exists) {
      if (has_segments(*control_))
        problems_.push_back(storage::checkpoint_path(folder_) + ": no such file");
      return;
    }
    if (slots.current >= 0) gather_log(slots.slot[slots.current].content);
  }

  Json slot_json(const CheckpointSlots &slots, int index) {
    TMH_ASSERT(slots.exists && index >= 0 && index < 2);
    const CheckpointSlots::Slot &slot = slots.slot[index];
    if (slot.error != Errc::kOk) {
      problems_.push_back(storage::checkpoint_path(folder_) + ": " + slot.why);
      return {{"slot", index}, {"error", errc_name(slot.error)}, {"message", slot.why}};
    }
    const CheckpointV1 &content = slot.content;
    return {{"slot", index},
            {"current", slots.current == index},
            {"sequence", content.sequence},
            {"lsn", content.lsn},
            {"stamp", content.stamp},
            {"generation", content.generation},
            {"time_ns", content.time_ns},
            {"durable_lsn", content.durable_lsn},
            {"clean", content.is_clean != 0}};
  }

  void gather_log(const CheckpointV1 &current) {
    TMH_ASSERT(current.log_file_bytes >= storage::kLogFileBytesMin);
    const storage::LogIdentity identity{{current.domain_id[0], current.domain_id[1]},
                                        current.log_file_bytes};
    const std::uint64_t needed = storage::file_of(current.previous_lsn, current.log_file_bytes);
    std::vector<std::uint64_t> indexes;
    check(storage::list_log_files(folder_, &indexes));
    storage::LogSource source(folder_, {}, identity);
    check(source.open());
    Json files = Json::array();
    std::uint64_t bytes = 0, disk_bytes = 0;
    for (const std::uint64_t index : indexes) {
      const storage::LogSource::File *file = nullptr;
      const Errc error = source.file_at(index * identity.file_bytes, &file);
      const std::string path = storage::log_file_path(folder_, index);
      if (error == Errc::kOk && !file->exists) continue;  // recycled while we look
      const FileFacts facts = file_facts(path);
      Json json{{"name", storage::log_file_name(index)},
                {"first_lsn", index * identity.file_bytes + storage::kLogBlockBytes},
                {"bytes", facts.bytes},
                {"disk_bytes", facts.disk_bytes},
                {"needed", index >= needed}};
      std::string why = error == Errc::kOk ? file->why : platform::failure_detail();
      if (why.empty() && facts.bytes < identity.file_bytes) why = "cut short";
      if (!why.empty()) {
        json["problem"] = why;
        problems_.push_back(path + ": " + why);
      }
      files.push_back(std::move(json));
      bytes += facts.bytes;
      disk_bytes += facts.disk_bytes;
    }
    document_["log"] = {{"file_bytes", identity.file_bytes},
                        {"keep_log", current.keep_all != 0},
                        {"bytes", bytes},
                        {"disk_bytes", disk_bytes},
                        {"files", std::move(files)}};
  }

  const std::string folder_;
  std::unique_ptr<ControlFile> control_;
  Json document_;
  std::vector<std::string> problems_;
};

std::string text(const Json &json, const char *key) {
  TMH_ASSERT(json.contains(key));
  return json.at(key).get<std::string>();
}
std::uint64_t number(const Json &json, const char *key) {
  TMH_ASSERT(json.contains(key));
  return json.at(key).get<std::uint64_t>();
}

std::string domain_text(const Json &document) {
  std::string out =
      fmt::format("domain      {}\nid          {}\nowner       uid {}\ndurability  {}\n",
                  text(document, "folder"), text(document, "domain_id"),
                  number(document, "owner_uid"), text(document, "durability"));
  if (!document.at("open").get<bool>()) return out + "open        no\n";
  out += fmt::format("open        {}", counted(document.at("participants").size(), "participant"));
  if (document.contains("detection"))
    out += fmt::format(", {} detection", text(document, "detection"));
  out += "\n";
  for (const Json &one : document.at("participants"))
    out += fmt::format("            process {} ({})\n", one.at("pid").get<std::int32_t>(),
                       text(one, "name"));
  return out;
}

std::string hardware_text(const Json &hardware) {
  std::string out = "hardware   ";  // only what happened: most domains run no RTM
  for (const auto &[name, total] : hardware.items())
    if (total.get<std::uint64_t>() != 0)
      out += fmt::format(" {} {},", name, total.get<std::uint64_t>());
  if (!out.ends_with(',')) return {};
  out.back() = '\n';
  return out;
}

std::string segments_text(const Json &segments) {
  std::string out = fmt::format("segments    {}\n", segments.size());
  for (const Json &one : segments)
    out += fmt::format("            {} {}: {}, {} of at most {}, {} on disk, at {}\n",
                       number(one, "number"), printable(text(one, "name")), text(one, "layout"),
                       bytes_text(number(one, "size_bytes")), bytes_text(number(one, "max_bytes")),
                       bytes_text(number(one, "disk_bytes")), text(one, "address"));
  return out;
}

std::string checkpoint_text(const Json &slots) {
  std::string out = slots.empty() ? "checkpoint  none\n" : "checkpoint\n";
  for (const Json &one : slots) {
    if (one.contains("error")) {
      out += fmt::format("            slot {}: damaged ({})\n", number(one, "slot"),
                         text(one, "message"));
      continue;
    }
    out += fmt::format("            slot {}: LSN {}, commit timestamp {}, generation {}, {}{}{}\n",
                       number(one, "slot"), number(one, "lsn"), number(one, "stamp"),
                       number(one, "generation"), moment_text(number(one, "time_ns")),
                       one.at("clean").get<bool>() ? ", closed cleanly" : "",
                       one.at("current").get<bool>() ? ", in use" : "");
  }
  return out;
}

std::string log_text(const Json &log) {
  std::string out = fmt::format("log         {} of {}{}\n", counted(log.at("files").size(), "file"),
                                bytes_text(number(log, "file_bytes")),
                                log.at("keep_log").get<bool>() ? ", kept until archived" : "");
  for (const Json &one : log.at("files"))
    out += fmt::format("            {}: from LSN {}, {} on disk{}{}\n", text(one, "name"),
                       number(one, "first_lsn"), bytes_text(number(one, "disk_bytes")),
                       one.at("needed").get<bool>() ? "" : ", not needed any more",
                       one.contains("problem") ? ", " + text(one, "problem") : "");
  return out;
}

}  // namespace

DomainInfo inspect(const std::string &folder) { return Info(folder).take(); }

Exit run(const InfoCommand &command) {
  const DomainInfo info = inspect(command.domain);
  const Json &document = info.document;
  if (command.json) {
    print(document);
  } else {
    std::string out = domain_text(document) + segments_text(document.at("segments"));
    if (document.contains("hardware")) out += hardware_text(document.at("hardware"));
    if (document.contains("checkpoint")) out += checkpoint_text(document.at("checkpoint"));
    if (document.contains("log")) out += log_text(document.at("log"));
    for (const Json &problem : document.at("problems"))
      out += fmt::format("problem     {}\n", printable(problem.get<std::string>()));
    print(out);
  }
  return info.problems.empty() ? Exit::kOk : Exit::kDamage;
}

}  // namespace tmh::tools
