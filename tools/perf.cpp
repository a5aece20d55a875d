// tools/perf.cpp -- tmh perf: counts the events of a program, and prints the codes of known events.
#include <fmt/format.h>
#include <string.h>

#include <cstdio>
#include <map>
#include <system_error>

#include <tmh/perf.hpp>

#include "observe/perf/processors.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "tools/commands.h"
#include "tools/failure.h"
#include "tools/print.h"
#include "tools/watched_program.h"

namespace tmh::tools {

namespace {

using perf::KnownEvent;
using perf::Processor;
using perf::Reading;

struct PerfReport {
  std::vector<std::string> program;
  ProgramResult result;
  std::vector<Reading> readings;
};

std::string ended(const ProgramResult &result) {
  TMH_ASSERT(result.start_error == 0);
  return result.signal != 0
             ? fmt::format("killed by signal {} ({})", result.signal, ::strsignal(result.signal))
             : fmt::format("exit status {}", result.exit_status);
}

std::string number_text(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string note(const Reading &reading) {
  std::string text;
  TMH_ASSERT(!reading.is_scaled() || reading.enabled_ns != 0);
  if (reading.is_scaled())
    text += fmt::format(
        "  scaled: counted {} in {:.1f} % of the time", number_text(reading.counted),
        100.0 * static_cast<double>(reading.running_ns) / static_cast<double>(reading.enabled_ns));
  if (reading.user_only) text += "  without the kernel's share";
  return text;
}

std::string text_of(const PerfReport &report) {
  std::string text = fmt::format("{}: {}, {:.3f} s\n", report.program.front(), ended(report.result),
                                 static_cast<double>(report.result.elapsed_ns) * 1e-9);
  std::map<std::string, std::string> missing;  // by cause
  for (const Reading &reading : report.readings) {
    if (!reading.missing.empty()) {
      std::string &names = missing[reading.missing];
      names += (names.empty() ? "" : ", ") + reading.event;
      continue;
    }
    const bool is_time = reading.event == "task-clock";
    const std::string value =
        is_time ? fmt::format("{:.3f} ms", static_cast<double>(reading.value()) * 1e-6)
                : number_text(reading.value());
    text += fmt::format("{:>20}  {}{}\n", value, reading.event, note(reading));
  }
  for (const auto &[cause, names] : missing)
    text += fmt::format("  not counted: {}\n    cause: {}\n", names, cause);
  return text;
}

std::string json_of(const PerfReport &report) {
  Json events = Json::array();
  for (const Reading &reading : report.readings) {
    Json event{{"event", reading.event}, {"group", reading.group}};
    if (!reading.missing.empty())
      event["missing"] = reading.missing;
    else
      event.update({{"value", reading.value()},
                    {"counted", reading.counted},
                    {"enabled_ns", reading.enabled_ns},
                    {"running_ns", reading.running_ns},
                    {"scaled", reading.is_scaled()},
                    {"user_only", reading.user_only}});
    events.push_back(std::move(event));
  }
  const Json document{{"document", "tmh-perf-1"},
                      {"program", report.program},
                      {"exit_status", report.result.exit_status},
                      {"signal", report.result.signal},
                      {"elapsed_ns", report.result.elapsed_ns},
                      {"events", std::move(events)}};
  return document.dump(2) + "\n";
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (const char letter : text) out += letter == '"' ? "\"\"" : std::string(1, letter);
  return out + '"';
}

std::string csv_of(const PerfReport &report) {
  std::string text = "event,group,value,counted,enabled_ns,running_ns,scaled,user_only,missing\n";
  for (const Reading &reading : report.readings)
    if (reading.missing.empty())
      text += fmt::format("{},{},{},{},{},{},{:d},{:d},\n", quoted(reading.event), reading.group,
                          reading.value(), reading.counted, reading.enabled_ns, reading.running_ns,
                          reading.is_scaled(), reading.user_only);
    else
      text += fmt::format("{},{},,,,,,,{}\n", quoted(reading.event), reading.group,
                          quoted(reading.missing));
  return text;
}

// A report's file, opened before the program runs: what cannot be written is refused early.
class Output {
 public:
  explicit Output(const std::string &path) : path_(path) {
    if (!path.empty() && (file_ = std::fopen(path.c_str(), "we")) == nullptr)
      check(platform::fail_errno(Errc::kIo, path));
  }
  ~Output() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Output(const Output &) = delete;
  Output &operator=(const Output &) = delete;

  void write(const std::string &text) {
    std::FILE *const to = file_ != nullptr ? file_ : stderr;
    errno = 0;
    if (std::fwrite(text.data(), 1, text.size(), to) != text.size() || std::fflush(to) != 0)
      check(platform::fail_errno(Errc::kIo, path_.empty() ? "standard error" : path_));
  }

 private:
  std::string path_;
  std::FILE *file_ = nullptr;
};

constexpr Processor processor(std::size_t i) {
  TMH_ASSERT(i < perf::kProcessors);
  return static_cast<Processor>(i);
}

Json encodings_json() {
  Json processors = Json::array();
  for (std::size_t i = 0; i < perf::kProcessors; ++i) {
    Json events = Json::array();
    for (const KnownEvent &event : perf::known_events())
      if (event.on(processor(i)) != KnownEvent::kNone)
        events.push_back({{"event", event.name},
                          {"config", fmt::format("{:#x}", event.on(processor(i)))},
                          {"name", event.full_name[i]}});
    const perf::ProcessorInfo &info = perf::info(processor(i));
    processors.push_back({{"processor", info.name},
                          {"name", info.full_name},
                          {"source", info.source},
                          {"events", std::move(events)}});
  }
  const Processor here = perf::this_processor();
  return {{"document", "tmh-perf-encodings-1"},
          {"this_processor", here == Processor::kOther ? "other" : perf::info(here).name},
          {"processors", std::move(processors)}};
}

std::string encodings_csv() {
  std::string text = "processor,event,config,name,source\n";
  for (std::size_t i = 0; i < perf::kProcessors; ++i)
    for (const KnownEvent &event : perf::known_events())
      if (event.on(processor(i)) != KnownEvent::kNone)
        text += fmt::format("{},{},{:#x},{},{}\n", perf::info(processor(i)).name, event.name,
                            event.on(processor(i)), event.full_name[i],
                            quoted(std::string(perf::info(processor(i)).source)));
  return text;
}

std::string encodings_text() {
  std::string text = fmt::format("{:<21}", "event");
  for (std::size_t i = 0; i < perf::kProcessors; ++i)
    text += fmt::format(" {:>12}", perf::info(processor(i)).name);
  text += "  meaning\n";
  for (const KnownEvent &event : perf::known_events()) {
    text += fmt::format("{:<21}", event.name);
    for (std::size_t i = 0; i < perf::kProcessors; ++i)
      text += event.on(processor(i)) == KnownEvent::kNone
                  ? fmt::format(" {:>12}", "-")
                  : fmt::format(" {:>#12x}", event.on(processor(i)));
    text += fmt::format("  {}\n", event.meaning);
  }
  text +=
      "\nThe codes are perf's raw config: umask << 8 | event; bit 32 inside transactions, bit 33 "
      "without aborted "
      "ones.\n";
  for (std::size_t i = 0; i < perf::kProcessors; ++i)
    text += fmt::format("{}: {}; source: {}\n", perf::info(processor(i)).name,
                        perf::info(processor(i)).full_name, perf::info(processor(i)).source);
  const Processor here = perf::this_processor();
  return text + fmt::format("This processor: {}\n",
                            here == Processor::kOther ? "another" : perf::info(here).name);
}

Exit print_encodings(const PerfCommand &command) {
  if (command.json)
    print(encodings_json());
  else
    print(command.csv ? encodings_csv() : encodings_text());
  return Exit::kOk;
}

}  // namespace

Exit run(const PerfCommand &command) {
  if (command.encodings) return print_encodings(command);
  TMH_ASSERT(!command.program.empty());
  Output output(command.output);
  WatchedProgram program(command.program);
  perf::CountersOptions options;
  options.thread = program.pid();
  options.whom = perf::CountersOptions::Whom::kDescendants;
  options.from = perf::CountersOptions::From::kExec;
  const perf::Counters counters(command.groups, options);
  PerfReport report{command.program, program.run(), {}};
  const int status = report.result.shell_status();
  if (report.result.start_error != 0) {
    print_error(fmt::format("tmh: {}: {} (exit code {})\n", command.program.front(),
                            std::generic_category().message(report.result.start_error), status));
    return static_cast<Exit>(status);
  }
  report.readings = counters.read();
  output.write(command.json ? json_of(report) : command.csv ? csv_of(report) : text_of(report));
  return static_cast<Exit>(status);
}

}  // namespace tmh::tools
