// bench/recovery_speed.cpp -- how fast a redo log is recovered, beside what this machine can copy
// and read.
// Shape:   writes a log of N MiB (whole pages, 64-byte lines or single words, on random pages of
//          one segment), then recovers it, `rounds` times from the same state. In each round memcpy
//          of the same number of bytes and a sequential read of the log files are timed too; ratios
//          are taken within a round, then their median is reported.
// Source:  thesis, section 3.2 and appendix B (recovery, which it leaves unmeasured);
//          LIBTP, section 3.2.1.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/support/clock.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "storage/log/log_files.h"
#include "storage/log/log_record.h"
#include "storage/log/recovery.h"

namespace tmh::bench {
namespace {

using namespace storage;

struct Options {
  CommonOptions common;
  std::uint64_t log_mib = 64;
  std::uint64_t segment_pages = 65'536;  // 256 MiB
  std::size_t rounds = 5;
  unsigned threads = 0;
};

struct Shape {
  const char *name;
  std::uint32_t pages;           // per transaction
  std::uint32_t lines_per_page;  // of 8 words each ...
  std::uint8_t words;            // ... of which these are written
};
constexpr Shape kShapes[] = {
    {"whole pages", 16, 64, 0xff}, {"lines", 16, 4, 0xff}, {"words", 16, 1, 0x01}};
constexpr std::uint32_t kLinesPerPage = 64;  // bits of a LineMask
static_assert(kLinesPerPage * kLineBytes == kPageBytes &&
              std::numeric_limits<LineMask>::digits == kLinesPerPage);
static_assert(std::ranges::all_of(kShapes, [](const Shape &shape) {
  return shape.lines_per_page >= 1 && shape.lines_per_page <= kLinesPerPage && shape.words != 0;
}));

void check(Errc error) {
  if (error != Errc::kOk)
    throw std::runtime_error(std::string(message(error)) + ": " + platform::failure_detail());
}

// A domain's folder as a crash leaves it, without a domain.
class CrashedFolder {
 public:
  CrashedFolder(std::string folder, const Options &options)
      : folder_(std::move(folder)),
        options_(options),
        control_(new_control(geteuid(), 1ull << 44)) {
    SegmentRecordV1 &record = control_->segments[0];
    record.state = static_cast<std::uint32_t>(RecordState::kUsed);
    record.layout = 2;
    record.max_bytes = options.segment_pages * kPageBytes;
    std::memcpy(record.name, "data", 4);
    seal(&record);
    store_size(&record, record.max_bytes);
    write_page_file(folder_ + "/data", options.segment_pages);
    identity_ = {{control_->header.domain_id[0], control_->header.domain_id[1]},
                 kLogFileBytesDefault};
    first_.domain_id[0] = identity_.domain_id[0];
    first_.domain_id[1] = identity_.domain_id[1];
    first_.log_file_bytes = identity_.file_bytes;
    first_.lsn = first_.durable_lsn = first_.previous_lsn = kFirstLsn;
    first_.generation = 1;
  }

  void write_log(const Shape &shape, Random *random) {
    TMH_ASSERT(random != nullptr && options_.segment_pages > 0);
    end_ = kFirstLsn;
    open_file(0);
    std::vector<std::byte> buffer(kRecordBytesMax);
    std::array<std::byte, kPageBytes> page{};
    std::array<std::uint8_t, kLinesPerPage> masks{};
    masks.fill(shape.words);
    for (std::uint64_t stamp = 2; end_ < options_.log_mib << 20; ++stamp) {
      RecordBuilder builder(buffer.data(), buffer.size());
      for (std::uint32_t i = 0; i < shape.pages; ++i) {
        for (std::size_t line = 0; line < shape.lines_per_page; ++line) {
          const std::uint64_t value = random->next();
          std::memcpy(page.data() + line * 64, &value, 8);
        }
        const LineMask lines =
            shape.lines_per_page == kLinesPerPage ? ~0ull : (1ull << shape.lines_per_page) - 1;
        if (!builder.add(page_id(0, PageIndex{random->below(options_.segment_pages)}), lines,
                         masks.data(), page.data()))
          break;
      }
      append(&builder, stamp);
    }
    check(log_.sync());
  }

  // Seconds.
  double recover(RecoveryReport *report) {
    TMH_ASSERT(report != nullptr);
    CheckpointFile checkpoint;
    check(checkpoint.create(folder_, first_));
    RecoveryOptions options;
    options.threads = options_.threads;
    const std::int64_t start = now_ns();
    check(storage::recover(folder_, *control_, &checkpoint, options, report));
    return static_cast<double>(now_ns() - start) * 1e-9;
  }

  // The same bytes through read(2), from the page cache as recovery finds them.
  double read_seconds() const {
    TMH_ASSERT(end_ > kFirstLsn);
    std::vector<char> piece(1 << 20);
    const std::int64_t start = now_ns();
    for (std::uint64_t index = 0; index <= file_of(end_, identity_.file_bytes); ++index) {
      const platform::FileDescriptor fd(
          open(log_file_path(folder_, index).c_str(), O_RDONLY | O_CLOEXEC));
      while (read(fd.get(), piece.data(), piece.size()) > 0) {
      }
    }
    return static_cast<double>(now_ns() - start) * 1e-9;
  }

  [[nodiscard]] std::uint64_t data_hash() const {
    ResultHash hash;
    std::vector<std::uint64_t> page(512);
    const platform::FileDescriptor fd(open((folder_ + "/data").c_str(), O_RDONLY | O_CLOEXEC));
    while (read(fd.get(), page.data(), kPageBytes) == static_cast<ssize_t>(kPageBytes)) {
      std::uint64_t sum = 0;
      for (const std::uint64_t word : page) sum = sum * 31 + word;
      hash.add(sum);
    }
    return hash.value();
  }

 private:
  void open_file(std::uint64_t index) {
    if (log_.is_open()) check(log_.sync());
    check(create_log_file(folder_, identity_, index));
    check(log_.open(log_file_path(folder_, index), platform::DiskFile::Mode::kReadWrite));
  }
  void append(RecordBuilder *builder, std::uint64_t stamp) {
    TMH_ASSERT(builder != nullptr && log_.is_open());
    const Lsn at = place(end_, builder->bytes(), identity_.file_bytes);
    TMH_ASSERT(at >= end_);
    RecordHeaderV1 fields{};
    fields.generation = 1;
    fields.stamp = stamp;
    fields.durable_before = kFirstLsn;
    if (at != end_) {
      fields.lsn = end_;
      fields.stamp = stamp - 1;
      std::array<std::byte, kFileEndRecordBytes> record{};
      const bool fits = end_ % identity_.file_bytes != 0 &&
                        identity_.file_bytes - end_ % identity_.file_bytes >= record.size();
      if (fits)
        check(log_.write(end_ % identity_.file_bytes, record.data(),
                         write_file_end_record(record.data(), fields)));
      open_file(file_of(at, identity_.file_bytes));
      fields.stamp = stamp;
    }
    fields.kind = static_cast<std::uint16_t>(RecordKind::kCommit);
    fields.lsn = at;
    fields.total_bytes = builder->bytes();
    const std::size_t bytes = builder->finish(fields);
    check(log_.write(at % identity_.file_bytes, builder->buffer(), bytes));
    end_ = at + bytes;
  }

  std::string folder_;
  const Options &options_;
  std::unique_ptr<ControlFile> control_;
  LogIdentity identity_;
  CheckpointV1 first_{};
  platform::DiskFile log_;
  Lsn end_ = 0;
};

double memcpy_seconds(std::uint64_t bytes) {
  static std::vector<char> from(64 << 20, 'f'), to(64 << 20, 't');
  const std::int64_t start = now_ns();
  for (std::uint64_t done = 0; done < bytes; done += from.size()) {
    std::memcpy(to.data(), from.data(), std::min<std::uint64_t>(from.size(), bytes - done));
    asm volatile("" : : "r"(to.data()) : "memory");  // the copy is not left out
  }
  return static_cast<double>(now_ns() - start) * 1e-9;
}

int run(Options options) {
  if (options.common.tiny) {
    options.log_mib = 4;
    options.segment_pages = 1024;
    options.rounds = 2;
  }
  const ScratchFolder scratch(options.common.folder);
  Json parameters;
  parameters["tiny"] = options.common.tiny;
  parameters["seed"] = options.common.seed;
  parameters["log_mib"] = options.log_mib;
  parameters["segment_pages"] = options.segment_pages;
  parameters["rounds"] = options.rounds;
  parameters["threads"] = options.threads;
  Report report("recovery_speed", environment(scratch.path()), parameters);
  report.print_head();
  Table table({"differences", "log MiB", "transactions", "pages", "MiB/s", "without sync",
               "of memcpy", "of read", "check ms", "store ms", "sync ms"});
  ResultHash result;
  bool right = true;
  for (const Shape &shape : kShapes) {
    CrashedFolder folder(scratch.subfolder(shape.name), options);
    Random random(options.common.seed);
    folder.write_log(shape, &random);
    std::vector<double> rate, unsynced, copy_share, read_share, check_ms, store_ms, sync_ms;
    RecoveryReport last;
    std::uint64_t hash = 0;
    // The first one warms the page cache.
    for (std::size_t round = 0; round <= options.rounds; ++round) {
      RecoveryReport found;
      const double seconds = folder.recover(&found);
      const double copying = memcpy_seconds(found.log_bytes), reading = folder.read_seconds();
      const std::uint64_t data = folder.data_hash();
      right = right && found.records != 0 &&
              (round == 0 || (data == hash && found.transactions == last.transactions));
      hash = data;
      last = found;
      if (round == 0) continue;
      const double mib = static_cast<double>(found.log_bytes) / (1 << 20);
      const double own = static_cast<double>(found.read_us + found.apply_us) * 1e-6;
      rate.push_back(mib / seconds);
      unsynced.push_back(mib / own);
      copy_share.push_back(copying / own);
      read_share.push_back(reading / own);
      check_ms.push_back(static_cast<double>(found.read_us) * 1e-3);
      store_ms.push_back(static_cast<double>(found.apply_us) * 1e-3);
      sync_ms.push_back(static_cast<double>(found.sync_us) * 1e-3);
    }
    result.add(hash);
    Json row;
    row["differences"] = shape.name;
    row["log_bytes"] = last.log_bytes;
    row["transactions"] = last.transactions;
    row["pages"] = last.pages;
    put(row, "mib_per_s", summarize(rate));
    put(row, "mib_per_s_without_sync", summarize(unsynced));
    put(row, "share_of_memcpy", summarize(copy_share));
    put(row, "share_of_read", summarize(read_share));
    put(row, "check_ms", summarize(check_ms));
    put(row, "store_ms", summarize(store_ms));
    put(row, "sync_ms", summarize(sync_ms));
    report.add("recovery", std::move(row));
    table.add({shape.name, number(static_cast<double>(last.log_bytes) / (1 << 20)),
               std::to_string(last.transactions), std::to_string(last.pages),
               with_mad(summarize(rate)), with_mad(summarize(unsynced)),
               with_mad(summarize(copy_share)), with_mad(summarize(read_share)),
               number(summarize(check_ms).median), number(summarize(store_ms).median),
               number(summarize(sync_ms).median)});
  }
  std::printf(
      "\nRecovery of a redo log in the page cache; memcpy and read(2) of as many bytes in the same "
      "round. Shares: "
      "without the\n"
      "sync of the data files, which is the disk's. Check: first reading; store: second reading, "
      "and storing.\n");
  table.print();
  std::printf("\nresult hash %s%s\n", hex(result.value()).c_str(),
              right ? "" : ", WRONG: rounds differ");
  report.note("result_hash", hex(result.value()));
  report.write(options.common.csv, options.common.json);
  return right ? 0 : 1;
}

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("Speed of recovery from a redo log", "recovery_speed");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--log-mib", options.log_mib, "MiB of log to write")
      .check_range(1, 1024)
      .capture_default_str();
  app.add_option("--segment-pages", options.segment_pages, "pages of the segment")
      .capture_default_str()
      .check_range(1, 1u << 30);
  app.add_option("--rounds", options.rounds, "how often it is recovered").capture_default_str();
  app.add_option("--threads", options.threads, "that store differences; 0: one per core")
      .capture_default_str();
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::run(options); });
}
