// tests/tools/tool_trace_test.cpp -- tmh trace: what is in the file is what happened.
// Invariants: (1) every instance that ended is in the trace, once, with its level and outcome. (2)
//             the trace of a process that was killed is there. (3) without TMH_TRACE nothing is
//             recorded. (4) damaged rings are refused. (5) each wait for a lock is there with its
//             result, each deadlock with its victim, each roll-back with its transaction.
#include <gtest/gtest.h>
#include <tp.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "observe/trace.h"
#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using programs::Json;

class ToolTrace : public ::testing::Test {
 protected:
  ToolTrace() { ::setenv("TMH_TRACE", "on", 1); }
  ~ToolTrace() override { ::unsetenv("TMH_TRACE"); }

  std::string domain() const { return folder_ / "domain"; }
  DomainOptions hybrid() const {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    return options;
  }
  ProgramEnd trace() const { return run_program({TMH_TOOL, "trace", domain()}); }
  Json document() const {
    const ProgramEnd end = trace();
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return Json::parse(end.out, Json::IfBroken::kDiscard);
  }
  // Instances by "level outcome".
  static std::map<std::string, std::uint64_t> instances_of(const Json &document) {
    std::map<std::string, std::uint64_t> count;
    for (const Json &event : document.at("traceEvents")) {
      if (event.at("ph") != "X" || !event.at("args").contains("outcome")) continue;
      EXPECT_GE(event.at("dur").get<double>(), 0);
      EXPECT_GT(event.at("ts").get<double>(), 0);
      ++count[event.at("cat").get<std::string>() + " " +
              event["args"]["outcome"].get<std::string>()];
    }
    return count;
  }

  MemoryFolder folder_;
};

struct Cell {
  field<long> value;
};
struct Thrown {};

TEST_F(ToolTrace, EveryInstanceIsThereWithItsLevelAndOutcome) {
  const Domain opened = Domain::open(domain(), hybrid());
  const Segment segment = opened.map("cells");
  Cell *const cell = segment.root<Cell>("cell");
  const Site low(opened, "low", "never"), high(opened, "high", "always");
  for (int i = 0; i < 10; ++i) atomically(low, [&](Fields) { cell->value += 1; });
  for (int i = 0; i < 5; ++i) atomically(high, [&](Fields) { cell->value += 1; });
  EXPECT_THROW(atomically(low, [](Fields) { throw Thrown(); }), Thrown);
  EXPECT_THROW(atomically(opened, [] { throw Thrown(); }), Thrown);
  const Counters counters = opened.counters();
  const Json written = document();
  auto instances = instances_of(written);
  EXPECT_EQ(instances["lines commit"], 10u);
  EXPECT_EQ(instances["lines abort"], 1u);
  EXPECT_EQ(instances["pages commit"], counters.commits + counters.queries);
  EXPECT_EQ(instances["pages abort"], 1u);
  EXPECT_EQ(written["otherData"]["events_lost"], 0);
  std::map<std::string, int> named;
  for (const Json &event : written["traceEvents"]) {
    EXPECT_EQ(event["pid"], ::getpid());
    ++named[event["name"].get<std::string>()];
  }
  EXPECT_EQ(named["process_name"], 1);
  EXPECT_GT(named["first touch"], 0);
  EXPECT_GT(named["recall"], 0);  // `high` took the page that `low` had used
}

TEST_F(ToolTrace, AnEscalationNamesItsNeedAndANumberThatIsNoneStaysANumber) {
  DomainOptions software = hybrid();
  software.line = LineChoice::kSoftware;
  const Domain opened = Domain::open(domain(), software);
  const Site up(opened, "up", "on-capacity");
  atomically(up, [](Fields) { become_irrevocable(); });
  const auto escalation = [&] {
    const Json written = document();
    for (const Json &event : written["traceEvents"])
      if (event["name"] == "escalate") return event["args"];
    ADD_FAILURE() << "no escalation";
    return Json();
  };
  EXPECT_EQ(escalation(),
            (Json{{"reason", 2}, {"attempts", 1}, {"need", "tmh::become_irrevocable"}}));
  const std::string path = observe::trace_path(domain(), 0);
  std::string ring(observe::kTraceBytes, '\0');
  std::ifstream(path, std::ios::binary)
      .read(ring.data(), static_cast<std::streamsize>(ring.size()));
  std::size_t at = sizeof(observe::TraceHeaderV1);
  const auto kind_of = [&](std::size_t event) {
    return static_cast<unsigned char>(ring[event + offsetof(observe::TraceEventV1, who)]);
  };
  while (at < ring.size() &&
         kind_of(at) != static_cast<std::uint32_t>(observe::TraceKind::kEscalate))
    at += sizeof(observe::TraceEventV1);
  ASSERT_LT(at, ring.size());
  const auto overwrite_first = [&](std::uint64_t first) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at + offsetof(observe::TraceEventV1, first)));
    file.write(reinterpret_cast<const char *>(&first), sizeof first);
  };
  for (const std::uint64_t need : {std::uint64_t{kNeedCount}, std::uint64_t{0xffff'ffff}}) {
    overwrite_first(2 | need << 32);
    EXPECT_EQ(escalation()["need"], std::to_string(need));
  }
  overwrite_first(7 | std::uint64_t{3} << 32);  // a reason that is none has no need
  EXPECT_EQ(escalation(), (Json{{"reason", 7}, {"attempts", 1}}));
}

TEST_F(ToolTrace, WaitsForLocksDeadlocksAndRollBacksAreThere) {
  tp_options options{};
  options.first_look_us = 500;
  tp_env *env = nullptr;
  ASSERT_EQ(tp_open(domain().c_str(), &options, &env), TP_OK) << tp_last_error();
  tp_txn *older = nullptr, *younger = nullptr, *late = nullptr;
  for (tp_txn **const txn : {&older, &younger, &late}) ASSERT_EQ(tp_begin(env, txn), TP_OK);
  const tp_id victim = tp_txn_id(younger);
  ASSERT_EQ(tp_lock(older, {77, 0}, TP_EXCLUSIVE, TP_TRY), TP_OK);
  ASSERT_EQ(tp_lock(younger, {77, 1}, TP_EXCLUSIVE, TP_TRY), TP_OK);
  std::thread waiter([&] {
    EXPECT_EQ(tp_lock(older, {77, 1}, TP_SHARED, TP_FOREVER), TP_OK) << tp_last_error();
  });
  EXPECT_EQ(tp_lock(younger, {77, 0}, TP_EXCLUSIVE, TP_FOREVER), TP_EDEADLOCK);
  EXPECT_EQ(tp_abort(younger), TP_OK) << tp_last_error();
  waiter.join();
  EXPECT_EQ(tp_lock(late, {77, 0}, TP_EXCLUSIVE, 1000), TP_ETIMEOUT);
  EXPECT_EQ(tp_commit(late), TP_OK) << tp_last_error();
  EXPECT_EQ(tp_commit(older), TP_OK) << tp_last_error();
  const Json written = document();
  std::map<std::string, Json> waits;
  std::map<std::string, std::vector<Json>> others;
  for (const Json &event : written["traceEvents"]) {
    const auto name = event["name"].get<std::string>();
    if (event["ph"] == "M" || event["cat"] != "locks") continue;
    if (name == "lock wait")
      waits[event["args"]["result"].get<std::string>()] = event;
    else
      others[name].push_back(event["args"]);
  }
  ASSERT_EQ(waits.size(), 3u) << written.dump();
  EXPECT_EQ(waits["granted"]["args"],
            (Json{{"space", 77}, {"id", 1}, {"mode", unsigned{TP_SHARED}}, {"result", "granted"}}));
  EXPECT_EQ(waits["kDeadlock"]["args"]["id"], 0);
  EXPECT_GE(waits["kLockTimeout"]["dur"].get<double>(), 1000);
  EXPECT_EQ(others["deadlock"], (std::vector<Json>{{{"victim", victim}, {"lockers", 2}}}));
  EXPECT_EQ(others["rollback"],
            (std::vector<Json>{{{"transaction", victim}, {"records", 0}, {"by", "owner"}}}));
  EXPECT_EQ(tp_close(env), TP_OK) << tp_last_error();
}

TEST_F(ToolTrace, AKilledProcessLeavesItsTrace) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Domain opened = Domain::open(domain(), hybrid());
    const Segment segment = opened.map("cells");
    Cell *const cell = segment.root<Cell>("cell");
    const Site low(opened, "low", "never");
    for (int i = 0; i < 7; ++i) atomically(low, [&](Fields) { cell->value += 1; });
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(instances_of(document())["lines commit"], 7u);
}

TEST_F(ToolTrace, ALongRunKeepsItsEndAndSaysWhatIsLost) {
  const Domain opened = Domain::open(domain(), hybrid());
  const Segment segment = opened.map("cells");
  Cell *const cell = segment.root<Cell>("cell");
  const Site low(opened, "low", "never");
  for (std::uint32_t i = 0; i < observe::kTraceEvents; ++i)
    atomically(low, [&](Fields) { cell->value += 1; });
  const Json written = document();
  // A begin and a commit each.
  EXPECT_EQ(instances_of(written)["lines commit"], observe::kTraceEvents / 2);
  EXPECT_GE(written["otherData"]["events_lost"], observe::kTraceEvents);
}

TEST_F(ToolTrace, OffRecordsNothingAndAnotherValueIsRefused) {
  ::setenv("TMH_TRACE", "off", 1);
  { const Domain opened = Domain::open(domain(), hybrid()); }
  const ProgramEnd end = trace();
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_TRUE(Json::parse(end.out, Json::IfBroken::kDiscard)["traceEvents"].empty());
  EXPECT_NE(end.err.find("TMH_TRACE=on"), std::string::npos);
  ::setenv("TMH_TRACE", "yes", 1);
  try {
    (void)Domain::open(domain(), hybrid());
    FAIL() << "not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), Errc::kBadArgument);
    EXPECT_NE(std::string(error.what()).find("off, on"), std::string::npos);
  }
}

// Its process may have been killed in the middle of making it, or be there just now: the others'
// rings are printed.
TEST_F(ToolTrace, ARingThatIsBeingMadeIsLeftOut) {
  const Domain opened = Domain::open(domain(), hybrid());
  opened.begin();
  EXPECT_EQ(opened.end(), Status::kCommitted);
  const std::string unfinished = observe::trace_path(domain(), 1);
  std::ofstream(unfinished).flush();
  EXPECT_EQ(document()["otherData"]["participants"], 1);
  std::filesystem::resize_file(unfinished, observe::kTraceBytes);
  EXPECT_EQ(document()["otherData"]["participants"], 1);
  EXPECT_EQ(instances_of(document())["pages commit"], 1u);
}

TEST_F(ToolTrace, ProcessesMayComeAndGoMeanwhile) {
  const Domain opened = Domain::open(domain(), hybrid());
  Children children;
  const std::size_t child = children.spawn("comes and goes", [&] {
    for (;;) Domain::open(domain(), hybrid()).close();
  });
  for (int i = 0; i < 100; ++i) {
    const ProgramEnd end = trace();
    ASSERT_EQ(end.exit_code, 0) << end.signal << end.err;
    ASSERT_FALSE(Json::parse(end.out, Json::IfBroken::kDiscard).is_discarded());
  }
  children.bury(child);
}

TEST_F(ToolTrace, DamagedRingsAreRefused) {
  const Domain opened = Domain::open(domain(), hybrid());
  const std::string path = observe::trace_path(domain(), 0);
  const auto overwrite = [&](std::size_t at, char byte) {
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(at))
        .put(byte);
  };
  EXPECT_EQ(trace().exit_code, 0);
  overwrite(0, 'x');
  EXPECT_EQ(trace().exit_code, 2);
  overwrite(0, 'T');
  overwrite(8, 9);
  EXPECT_EQ(trace().exit_code, 3);  // kForeignVersion
  overwrite(8, 1);
  overwrite(24, '\xff');  // a name that is no UTF-8
  EXPECT_EQ(trace().exit_code, 0);
  std::filesystem::resize_file(path, observe::kTraceBytes - 1);
  EXPECT_EQ(trace().exit_code, 2);
}

}  // namespace
}  // namespace tmh::test
