// bench/support/durable_run.cpp -- one measurement of one contestant.
#include "bench/support/durable_run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "bench/support/clock.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

// Loaded in pieces: one transaction of everything would be another experiment (Berkeley DB would
// run out of locks).
constexpr std::uint64_t kRecordsPerLoad = 100;

struct MemberResult {
  std::uint64_t log_bytes = 0, device_bytes = 0, retries = 0;
};
struct TeamResult {
  MemberResult members[kTeamMembersMax];
  std::uint64_t content_hash = 0;
};

// Bytes that the device below `folder` was sent so far, by everybody on the machine; 0 when it has
// no counter. Not write_bytes of /proc/self/io: that counts a whole folio (up to 2 MiB on Linux
// 6.18) when one block of it becomes dirty.
std::uint64_t device_bytes(const std::string &folder) {
  // Of the counters, whatever the device's: Documentation/block/stat.rst.
  constexpr std::uint64_t kSectorBytes = 512;
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return 0;
  std::ifstream file("/sys/dev/block/" + std::to_string(major(info.st_dev)) + ":" +
                     std::to_string(minor(info.st_dev)) + "/stat");
  std::uint64_t value = 0;
  for (int field = 0; field < 7; ++field) file >> value;  // the seventh: sectors written
  return file ? value * kSectorBytes : 0;
}

void sync_file_system(const std::string &folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || ::syncfs(fd) != 0) throw std::system_error(errno, std::generic_category(), folder);
  (void)::close(fd);
}

// Records are numbered: the loaded ones, then every member's warm-up and timed ones.
struct Numbers {
  std::uint64_t first = 0, warm_up = 0, timed = 0;
};
Numbers numbers_of(const Workload &workload, unsigned processes, unsigned index) {
  TMH_ASSERT(processes > 0 && index <= processes);
  const std::uint64_t timed = workload.inserts / processes;
  return {workload.loaded + index * (workload.warm_up + timed), workload.warm_up, timed};
}
std::uint64_t record_count(const Workload &workload, unsigned processes) {
  return numbers_of(workload, processes, processes).first;
}

void add_record(ResultHash *hash, std::uint64_t key, const char *value) {
  TMH_ASSERT(hash != nullptr && value != nullptr);
  hash->add(key);
  for (std::size_t offset = 0; offset < kValueBytes; offset += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, value + offset, sizeof(word));
    hash->add(word);
  }
}

void create_and_load(Contestant *contestant, const Workload &workload, const Plan &plan,
                     const std::string &folder) {
  TMH_ASSERT(contestant != nullptr && plan.processes > 0);
  contestant->create(folder, plan);
  if (!contestant->keeps_records() || workload.loaded == 0) return;
  const auto session = contestant->open(folder, 0);
  std::vector<Record> records;
  for (std::uint64_t i = 0; i < workload.loaded; ++i) {
    records.push_back(make_record(workload.seed, i));
    if (records.size() < kRecordsPerLoad && i + 1 < workload.loaded) continue;
    session->commit(records);
    records.clear();
  }
}

void run_member(Contestant *contestant, const Workload &workload, const Numbers &numbers,
                const std::string &folder, unsigned index, const TeamClock &clock,
                std::int64_t *latencies_ns, MemberResult *result) {
  TMH_ASSERT(latencies_ns != nullptr && result != nullptr);
  const auto session = contestant->open(folder, index);
  std::uint64_t number = numbers.first;
  for (std::uint64_t i = 0; i < numbers.warm_up; ++i) {
    const Record record = make_record(workload.seed, number++);
    session->commit({&record, 1});
  }
  clock.meet();  // all have warmed up: what is counted from here on is the timed part of everybody
  const MemberResult before{session->log_bytes(), device_bytes(folder), session->retries()};
  clock.start();
  for (std::uint64_t i = 0; i < numbers.timed; ++i) {
    const Record record = make_record(workload.seed, number++);
    const std::int64_t start = now_ns();
    session->commit({&record, 1});
    latencies_ns[i] = now_ns() - start;
  }
  clock.finish();
  clock.meet();
  *result = {session->log_bytes() - before.log_bytes, device_bytes(folder) - before.device_bytes,
             session->retries() - before.retries};
  clock.meet();  // nobody closes (and writes) while another still counts
}

std::uint64_t content_hash(Contestant *contestant, const std::string &folder) {
  ResultHash hash;
  contestant->open(folder, 0)->scan(
      [&](std::uint64_t key, const char *value) { add_record(&hash, key, value); });
  return hash.value();
}

}  // namespace

std::uint64_t expected_hash(const Workload &workload, unsigned processes) {
  TMH_ASSERT(processes > 0);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> order;  // key, number
  const std::uint64_t count = record_count(workload, processes);
  for (std::uint64_t i = 0; i < count; ++i)
    order.emplace_back(make_record(workload.seed, i).key, i);
  std::sort(order.begin(), order.end());
  ResultHash hash;
  for (const auto &[key, number] : order)
    add_record(&hash, key, make_record(workload.seed, number).value.data());
  return hash.value();
}

Measurement measure(Contestant *contestant, const Workload &workload, unsigned processes,
                    const std::string &folder) {
  TMH_ASSERT(contestant != nullptr && processes > 0 && processes <= kTeamMembersMax);
  const Plan plan{processes, record_count(workload, processes)};
  contestant->prepare(plan);
  run_alone([&] { create_and_load(contestant, workload, plan, folder); });
  sync_file_system(folder);

  const std::uint64_t each = workload.inserts / processes;
  const SharedMemory memory(std::max<std::size_t>(1, each * processes) * sizeof(std::int64_t));
  auto *latencies_ns = static_cast<std::int64_t *>(memory.data());
  const Shared<TeamResult> shared;
  Measurement measurement;
  measurement.elapsed_us =
      run_team_ns(processes,
                  [&](unsigned index, const TeamClock &clock) {
                    run_member(contestant, workload, numbers_of(workload, processes, index), folder,
                               index, clock, latencies_ns + index * each, &shared->members[index]);
                  }) /
      1000.0;
  if (contestant->keeps_records())
    run_alone([&] { shared->content_hash = content_hash(contestant, folder); });

  const auto commits = static_cast<double>(each * processes);
  std::uint64_t log_bytes = 0;
  for (unsigned index = 0; index < processes; ++index) {
    const MemberResult &member = shared->members[index];
    if (contestant->counts_log() == CountsLog::kOwn || index == 0) log_bytes += member.log_bytes;
    measurement.retries += member.retries;
  }
  measurement.log_bytes_per_commit = static_cast<double>(log_bytes) / commits;
  measurement.device_bytes_per_commit =
      static_cast<double>(shared->members[0].device_bytes) / commits;
  measurement.content_hash = shared->content_hash;
  measurement.latencies_us.reserve(each * processes);
  for (std::uint64_t i = 0; i < each * processes; ++i) {
    measurement.latencies_us.push_back(static_cast<double>(latencies_ns[i]) / 1000.0);
  }
  return measurement;
}

}  // namespace tmh::bench
