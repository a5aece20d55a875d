// tests/tools/tool_skew_test.cpp -- tmh skew: what processes with TMH_SKEW=record have left.
// Invariants: (1) two sites that skew are reported with the lines to promote, and nothing once they
//             promote them. (2) Every commit is recorded with its site, kind, reads and writes; an
//             abort is not. (3) A recording is read up to where it is torn, whatever its bytes are.
//             (4) What is no recording of this domain is refused or left out.
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <tmh/field.hpp>
#include <tmh/lab.hpp>
#include <tmh/site.hpp>
#include <tmh/tmh.hpp>

#include "observe/skew.h"
#include "programs/json.h"
#include "storage/control.h"
#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"
#include "tools/skew_records.h"

namespace tmh::test {
namespace {

using observe::SkewHeaderV1;
using observe::SkewInstance;
using observe::SkewKind;
using observe::SkewPair;
using observe::SkewRecordV1;
using programs::Json;
using tools::parse_skew;
using tools::SkewRecording;

// On pages of their own.
struct Doctor {
  alignas(kPageBytes) long is_on_call;
};
struct Ward {
  Doctor doctors[2];
};

class ToolSkew : public ::testing::Test {
 protected:
  ToolSkew() { ::setenv("TMH_SKEW", "record", 1); }
  ~ToolSkew() override { ::unsetenv("TMH_SKEW"); }

  std::string domain() const { return folder_ / "domain"; }
  static DomainOptions snapshot() {
    DomainOptions options;
    options.policies.isolation = Isolation::kSnapshot;
    return options;
  }
  Ward *ward_in(const Segment &segment) const { return segment.root<Ward>("ward"); }
  Json skews(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"skew", domain(), "--json"});
    const ProgramEnd end = run_tmh(more);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    const Json document = Json::parse(end.out, Json::IfBroken::kDiscard);
    expect_valid("skew", document.dump());
    return document;
  }
  std::vector<std::string> recordings() const {
    std::vector<std::string> paths;
    for (const auto &entry : std::filesystem::directory_iterator(domain()))
      if (entry.path().filename().string().starts_with(observe::kSkewPrefix))
        paths.push_back(entry.path());
    return paths;
  }
  std::vector<SkewRecording> read_all() const {
    std::vector<SkewRecording> all;
    for (const std::string &path : recordings())
      if (auto one = parse_skew(path, read_file(path))) all.push_back(*std::move(one));
    return all;
  }

  // Two doctors are on call. Each goes home if the other one is, in instances that overlap. The
  // number of those that are left.
  long go_home_at_once(bool promotes, const std::string &segment_name = "ward.db") {
    {
      const Domain opened = Domain::open(domain(), snapshot());
      const Segment segment = opened.map(segment_name);
      atomically(opened, [&] {
        for (Doctor &doctor : ward_in(segment)->doctors) doctor.is_on_call = 1;
      });
      std::filesystem::remove(recordings().at(0));  // of the preparation
    }
    Shared<Turn> turn;
    Children children;
    const auto leave = [&](int self, const char *name) {
      const Domain opened = Domain::open(domain(), snapshot());
      const Segment segment = opened.map(segment_name);
      Ward *const ward = ward_in(segment);
      const Site site(opened, name);
      bool is_first_try = true;
      atomically(site, [&] {
        const long others = ward->doctors[1 - self].is_on_call;
        if (promotes) promote(ward->doctors[1 - self].is_on_call);
        if (others != 0) ward->doctors[self].is_on_call = 0;
        // Both have read before either commits.
        if (is_first_try && self == 0) {
          turn->reach(1);
          turn->await(2);
        } else if (is_first_try) {
          turn->await(1);
          turn->reach(2);
        }
        is_first_try = false;
      });
    };
    children.spawn("anna", role(*turn, [&] { leave(0, "anna goes home"); }));
    children.spawn("bert", role(*turn, [&] { leave(1, "bert goes home"); }));
    children.expect_success();
    ::unsetenv("TMH_SKEW");
    const Domain opened = Domain::open(domain(), snapshot());
    const Segment segment = opened.map(segment_name);
    const Ward *const ward = ward_in(segment);
    const long left =
        query(opened, [&] { return ward->doctors[0].is_on_call + ward->doctors[1].is_on_call; });
    ::setenv("TMH_SKEW", "record", 1);
    return left;
  }

  MemoryFolder folder_;
};

TEST_F(ToolSkew, TwoDoctorsAreReportedWithTheLinesToPromote) {
  EXPECT_EQ(go_home_at_once(false), 0) << "they have not skewed";
  const Json report = skews();
  EXPECT_EQ(report["recordings"].size(), 2u);
  ASSERT_EQ(report["pairs"].size(), 1u) << report.dump(1);
  EXPECT_TRUE(report["pivots"].empty());
  const Json &pair = report["pairs"][0];
  EXPECT_EQ(pair["overlapped"], 1);
  EXPECT_EQ(pair["could"], 1);
  EXPECT_EQ(pair["evidence"], "page-read");
  std::map<std::string, Json> by_reader;
  for (const Json &conflict : pair["conflicts"])
    by_reader[conflict["reader"]["site"].get<std::string>()] = conflict;
  ASSERT_EQ(by_reader.size(), 2u);
  const Domain opened = Domain::open(domain(), snapshot());
  const Segment segment = opened.map("ward.db");
  const Ward *const ward = ward_in(segment);
  const auto expect_at = [&](const std::string &reader, const Doctor &doctor) {
    const Json &places = by_reader[reader]["places"];
    ASSERT_EQ(places.size(), 1u) << reader;
    EXPECT_EQ(places[0]["segment"], "ward.db");
    EXPECT_EQ(places[0]["address"], reinterpret_cast<std::uintptr_t>(&doctor.is_on_call));
    EXPECT_EQ(places[0]["bytes"], kLineBytes);
  };
  expect_at("anna goes home", ward->doctors[1]);
  expect_at("bert goes home", ward->doctors[0]);
  const ProgramEnd text = run_tmh({"skew", domain()});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_NE(text.out.find("\"anna goes home\" and \"bert goes home\" can skew"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("cure: \"anna goes home\" calls tmh::promote()"), std::string::npos)
      << text.out;
}

TEST_F(ToolSkew, TwoDoctorsThatPromoteAreNotReported) {
  EXPECT_EQ(go_home_at_once(true), 1);
  const Json report = skews();
  int named = 0;
  for (const Json &site : report["sites"]) named += site["site"] == "" ? 0 : 1;
  EXPECT_EQ(named, 2) << report.dump(1);
  EXPECT_TRUE(report["pairs"].empty()) << report.dump(1);
  EXPECT_TRUE(report["pivots"].empty()) << report.dump(1);
  const ProgramEnd text = run_tmh({"skew", domain()});
  EXPECT_NE(text.out.find("no skew"), std::string::npos) << text.out;
}

TEST_F(ToolSkew, EveryCommitIsRecordedAsWhatItWas) {
  const Domain opened = Domain::open(domain(), snapshot());
  const Segment segment = opened.map("ward.db");
  Ward *const ward = ward_in(segment);
  const std::size_t before = read_all().at(0).instances.size();
  const Site named(opened, "named"), strict(opened, "strict", "", Isolation::kSerializable);
  // The second one touches the page that the first one has touched: it stays mapped for neither.
  for (int i = 0; i < 2; ++i) atomically(named, [&] { ward->doctors[0].is_on_call += 1; });
  atomically(strict, [&] { ward->doctors[1].is_on_call = ward->doctors[0].is_on_call; });
  EXPECT_NE(query(opened, [&] { return ward->doctors[1].is_on_call; }), 0);
  struct Thrown {};
  EXPECT_THROW(atomically(named, [] { throw Thrown(); }), Thrown);
  atomically(opened, [&] { promote(ward->doctors[1].is_on_call); });
  const SkewRecording recording = read_all().at(0);
  EXPECT_EQ(recording.pid, ::getpid());
  EXPECT_FALSE(recording.is_cut);
  EXPECT_EQ(recording.unread_bytes, 0u);
  const std::vector<SkewInstance> all(
      recording.instances.begin() + static_cast<std::ptrdiff_t>(before), recording.instances.end());
  ASSERT_EQ(all.size(), 5u);
  const SkewPair first{all[0].writes.at(0).first, 1}, second{first.first + 1, 1};
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(all[i].site, "named");
    EXPECT_EQ(all[i].kind, SkewKind::kSnapshot);
    EXPECT_EQ(all[i].reads, std::vector{first});
    EXPECT_EQ(all[i].writes, std::vector{first});
    EXPECT_EQ(all[i].end, all[0].end + i);
    EXPECT_LT(all[i].snapshot, all[i].end);
  }
  EXPECT_EQ(all[2].site, "strict");
  EXPECT_EQ(all[2].kind, SkewKind::kSerializable);
  EXPECT_EQ(all[2].reads, (std::vector<SkewPair>{{first.first, 2}}));
  EXPECT_EQ(all[2].writes, std::vector{second});
  EXPECT_EQ(all[3].site, "");
  EXPECT_EQ(all[3].kind, SkewKind::kQuery);
  EXPECT_EQ(all[3].reads, std::vector{second});
  EXPECT_TRUE(all[3].writes.empty());
  EXPECT_EQ(all[4].reads, std::vector{second});
  EXPECT_EQ(all[4].writes, std::vector{second});
  EXPECT_EQ(all[4].promotions, std::vector{second});
}

// What is committed between its moment and its begin it has not seen.
TEST_F(ToolSkew, AQueryOfThePastIsRecordedAtItsMoment) {
  DomainOptions options = snapshot();
  options.history.bytes = kHistoryBytes;
  const Domain opened = Domain::open(domain(), options);
  const Segment segment = opened.map("ward.db");
  Ward *const ward = ward_in(segment);
  const Site site(opened, "before");
  const std::uint64_t moment = opened.past().now;
  for (int i = 0; i < 3; ++i) atomically(site, [&] { ward->doctors[0].is_on_call += 1; });
  EXPECT_EQ(query_at(opened, Moment::clock(moment), [&] { return ward->doctors[0].is_on_call; }),
            0);
  const SkewInstance last = read_all().at(0).instances.back();
  EXPECT_EQ(last.kind, SkewKind::kQuery);
  EXPECT_EQ(last.site, "");
  EXPECT_EQ(last.snapshot, moment);
  EXPECT_EQ(last.end, moment + 3);
}

TEST_F(ToolSkew, ThreadsWithViewsOfTheirOwnHaveFilesOfTheirOwn) {
  struct Cells {
    field<long> cells[2];
  };
  DomainOptions options = snapshot();
  options.policies.thread_views = lab::kOwnViewAlways;
  const Domain opened = Domain::open(domain(), options);
  const Segment segment = opened.map("cells.db");
  Cells *const cells = segment.root<Cells>("cells");
  const Site site(opened, "threads");
  std::thread([&] { atomically(site, [&](Fields) { cells->cells[0] += 1; }); }).join();
  EXPECT_EQ(opened.counters().thread_view_instances, 1u);
  std::size_t of_site = 0;
  for (const SkewRecording &recording : read_all())
    for (const SkewInstance &instance : recording.instances)
      of_site += instance.site == "threads" ? 1U : 0U;
  EXPECT_EQ(recordings().size(), 2u);
  EXPECT_EQ(of_site, 1u);
}

TEST_F(ToolSkew, AKilledProcessLeavesItsRecords) {
  Children children;
  const std::size_t child = children.spawn("writer", [&] {
    const Domain opened = Domain::open(domain(), snapshot());
    const Segment segment = opened.map("ward.db");
    Ward *const ward = ward_in(segment);
    const Site site(opened, "dies");
    for (int i = 0; i < 3; ++i) atomically(site, [&] { ward->doctors[0].is_on_call += 1; });
    die_unless_failed();
  });
  EXPECT_EQ(children.wait(child).signal, SIGKILL);
  const Json report = skews();
  std::uint64_t instances = 0;
  for (const Json &site : report["sites"])
    if (site["site"] == "dies") instances = site["instances"];
  EXPECT_EQ(instances, 3u);
}

TEST_F(ToolSkew, OffRecordsNothingAndAnotherValueIsRefused) {
  for (const char *off : {"", "off"}) {
    ::setenv("TMH_SKEW", off, 1);
    { const Domain opened = Domain::open(domain(), snapshot()); }
    EXPECT_TRUE(recordings().empty());
  }
  const ProgramEnd end = run_tmh({"skew", domain()});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_NE(end.err.find("TMH_SKEW=record"), std::string::npos) << end.err;
  ::setenv("TMH_SKEW", "on", 1);
  try {
    (void)Domain::open(domain(), snapshot());
    FAIL() << "not refused";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), Errc::kBadArgument);
    EXPECT_NE(std::string(error.what()).find("off, record"), std::string::npos) << error.what();
  }
  ::setenv("TMH_SKEW", "record", 1);
  EXPECT_NO_THROW((void)Domain::open(domain(), snapshot()));
}

TEST_F(ToolSkew, WrongCommandLinesAreRefused) {
  EXPECT_EQ(run_tmh({"skew"}).exit_code, 64);
  EXPECT_EQ(run_tmh({"skew", domain(), "--sample", "0"}).exit_code, 64);
  EXPECT_EQ(run_tmh({"skew", domain(), "--places", "some"}).exit_code, 64);
  EXPECT_EQ(run_tmh({"skew", folder_ / "nowhere"}).exit_code, 3);
}

// A file as a participant leaves it.
class SkewFile : public ToolSkew {
 protected:
  static SkewInstance instance(std::uint64_t end) {
    SkewInstance made;
    made.site = "a site";
    made.snapshot = end - 1;
    made.end = end;
    made.reads = {{1, 2}, {5, 1}};
    made.writes = {{2, 3}, {5, 4}};
    made.promotions = {{5, 4}};
    return made;
  }
  static std::string header() {
    SkewHeaderV1 made{};
    made.magic = observe::kSkewMagic;
    made.version = observe::kSkewVersion;
    made.header_bytes = sizeof made;
    std::memcpy(made.name, "program", 7);
    return std::string(reinterpret_cast<const char *>(&made), sizeof made);
  }
  static std::string bytes_of(const SkewInstance &instance) {
    std::vector<std::uint64_t> words;
    append_skew_record(instance, &words);
    return std::string(reinterpret_cast<const char *>(words.data()), words.size() * 8);
  }
  static SkewRecording parsed(const std::string &bytes) {
    std::optional<SkewRecording> recording = parse_skew("file", bytes);
    EXPECT_TRUE(recording.has_value());
    return recording.value_or(SkewRecording{});
  }
  static Errc refused(const std::string &bytes) {
    try {
      (void)parse_skew("file", bytes);
      return Errc::kOk;
    } catch (const Error &error) {
      return error.errc();
    }
  }
};

TEST_F(SkewFile, RecordsAreReadAsTheyWereWritten) {
  const SkewRecording recording = parsed(header() + bytes_of(instance(7)) + bytes_of(instance(8)));
  EXPECT_EQ(recording.name, "program");
  ASSERT_EQ(recording.instances.size(), 2u);
  const SkewInstance &read = recording.instances[1];
  const SkewInstance written = instance(8);
  EXPECT_EQ(read.site, written.site);
  EXPECT_EQ(read.kind, written.kind);
  EXPECT_EQ(read.snapshot, written.snapshot);
  EXPECT_EQ(read.end, written.end);
  EXPECT_EQ(read.reads, written.reads);
  EXPECT_EQ(read.writes, written.writes);
  EXPECT_EQ(read.promotions, written.promotions);
  EXPECT_FALSE(read.has_unknown_reads);
}

TEST_F(SkewFile, ATornFileIsReadUpToTheTear) {
  const std::string whole = header() + bytes_of(instance(7)) + bytes_of(instance(8));
  const std::size_t first = header().size() + bytes_of(instance(7)).size();
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const std::optional<SkewRecording> recording = parse_skew("file", whole.substr(0, size));
    ASSERT_EQ(recording.has_value(), size >= sizeof(SkewHeaderV1)) << size;
    if (!recording) continue;
    const std::size_t records = size == whole.size() ? 2 : size >= first ? 1 : 0;
    EXPECT_EQ(recording->instances.size(), records) << size;
    const std::size_t read = records == 2   ? whole.size()
                             : records == 1 ? first
                                            : sizeof(SkewHeaderV1);
    EXPECT_EQ(recording->unread_bytes, size - read) << size;
  }
}

TEST_F(SkewFile, AChangedByteEndsTheReading) {
  const std::string head = header(), record = bytes_of(instance(7));
  for (std::size_t at = 0; at < record.size(); ++at) {
    std::string damaged = record;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    const SkewRecording recording = parsed(head + bytes_of(instance(6)) + damaged + record);
    EXPECT_EQ(recording.instances.size(), 1u) << at;
    EXPECT_EQ(recording.unread_bytes, 2 * record.size()) << at;
  }
}

// With the checksum that belongs to it.
TEST_F(SkewFile, RecordsThatSayNonsenseAreNotBelieved) {
  const auto reads = [](const std::function<void(SkewRecordV1 *, std::uint64_t *)> &change) {
    std::vector<std::uint64_t> words;
    append_skew_record(instance(7), &words);
    SkewRecordV1 head;
    std::memcpy(&head, words.data(), sizeof head);
    change(&head, words.data() + sizeof head / 8 + 1);  // behind the site's name
    std::memcpy(words.data(), &head, sizeof head);
    words[0] = observe::skew_checksum(words.data() + 1, words.size() - 1);
    return parsed(header() +
                  std::string(reinterpret_cast<const char *>(words.data()), words.size() * 8))
               .instances.size() == 1;
  };
  using Head = SkewRecordV1 *;
  using Body = std::uint64_t *;
  EXPECT_TRUE(reads([](Head, Body) {}));
  EXPECT_TRUE(reads([](Head head, Body) { head->kind |= observe::kSkewReadsUnknown; }));
  EXPECT_FALSE(reads([](Head head, Body) { head->kind = 0; }));
  EXPECT_FALSE(reads([](Head head, Body) { head->kind = 4; }));
  EXPECT_FALSE(reads([](Head head, Body) { head->kind |= 1u << 9; }));
  EXPECT_FALSE(reads([](Head head, Body) { head->snapshot = head->end + 1; }));
  EXPECT_FALSE(reads([](Head head, Body) { head->word_count = 0; }));
  EXPECT_FALSE(reads([](Head head, Body) { head->word_count = ~0u; }));
  EXPECT_FALSE(reads([](Head head, Body) { head->site_bytes = ~0u; }));
  EXPECT_FALSE(reads([](Head head, Body) { head->read_count = ~0u; }));
  EXPECT_FALSE(reads([](Head head, Body) { ++head->promotion_count; }));
  EXPECT_FALSE(reads([](Head, Body body) { body[1] = 0; }));  // an empty run
  EXPECT_FALSE(reads([](Head, Body body) { body[1] = ~std::uint64_t{0}; }));
  EXPECT_FALSE(reads([](Head, Body body) { body[1] = 5; }));                  // runs that meet
  EXPECT_FALSE(reads([](Head, Body body) { body[0] = ~std::uint64_t{0}; }));  // of no segment
  EXPECT_FALSE(reads([](Head, Body body) { body[5] = 0; }));                  // no line
  EXPECT_FALSE(reads([](Head, Body body) { body[4] = ~std::uint64_t{0}; }));
}

TEST_F(SkewFile, AnyBytesAreReadWithoutHarm) {
  std::mt19937_64 random(seed());
  const std::string whole = header() + bytes_of(instance(7)) + bytes_of(instance(8));
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = whole;
    for (int changes = 0; changes < 3; ++changes)
      bytes[sizeof(SkewHeaderV1) + random() % (bytes.size() - sizeof(SkewHeaderV1))] =
          static_cast<char>(random());
    EXPECT_LE(parsed(bytes).instances.size(), 2u);
  }
}

TEST_F(SkewFile, AnotherHeaderIsRefused) {
  std::string bytes = header();
  EXPECT_EQ(refused(bytes), Errc::kOk);
  bytes[0] = 'X';
  EXPECT_EQ(refused(bytes), Errc::kCorrupt);
  bytes = header();
  bytes[offsetof(SkewHeaderV1, version)] = 9;
  EXPECT_EQ(refused(bytes), Errc::kForeignVersion);
  bytes = header();
  bytes[offsetof(SkewHeaderV1, header_bytes)] = 9;
  EXPECT_EQ(refused(bytes), Errc::kForeignVersion);
}

TEST_F(SkewFile, TheCommandTellsWhatItCouldNotRead) {
  {
    const Domain opened = Domain::open(domain(), snapshot());
    const Segment segment = opened.map("ward.db");
    atomically(opened, [&] { ward_in(segment)->doctors[0].is_on_call = 1; });
  }
  const std::string path = recordings().at(0), whole = read_file(path);
  const std::uint64_t instances = skews()["recordings"][0]["instances"];
  write_file(path, whole.substr(0, whole.size() - 1));
  const Json torn = skews();
  EXPECT_EQ(torn["recordings"][0]["instances"], instances - 1);
  EXPECT_GT(torn["recordings"][0]["unread_bytes"], 0);
  EXPECT_NE(run_tmh({"skew", domain()}).err.find("is torn"), std::string::npos);
  std::string cut = whole;
  cut[offsetof(SkewHeaderV1, is_cut)] = 1;
  write_file(path, cut);
  EXPECT_EQ(skews()["recordings"][0]["cut"], true);
  EXPECT_NE(run_tmh({"skew", domain()}).err.find("could not record all"), std::string::npos);
  std::string foreign = whole;
  foreign[offsetof(SkewHeaderV1, domain_id)] ^= 1;
  write_file(path, foreign);
  EXPECT_TRUE(skews()["recordings"].empty());
  EXPECT_NE(run_tmh({"skew", domain()}).err.find("of another domain"), std::string::npos);
  write_file(path, whole.substr(0, 5));  // its process is just making it
  EXPECT_TRUE(skews()["recordings"].empty());
  write_file(path, 'X' + whole.substr(1));
  EXPECT_EQ(run_tmh({"skew", domain()}).exit_code, 2);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_EQ(run_tmh({"skew", domain()}).exit_code, 3);
}

}  // namespace
}  // namespace tmh::test
