// tests/support/log_rig.h -- a domain's folder without a domain: control file, data files,
// checkpoint and a log, written by the test, and a model that knows what every recovery must give.
// Shape:     commit() appends to the log (write, no sync); sync() makes it durable and later
//            records say so; recover() runs the recovery under test, writes the opening record and
//            stores the checkpoint that promises it, as a domain does. The model is the list of
//            transactions in the log's order.
// Invariant: the rig's own writing is plain and slow on purpose: it shares nothing with the
//            library's log writer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/checkpoint_file.h"
#include "storage/control.h"
#include "storage/log/log_files.h"
#include "storage/log/log_record.h"
#include "storage/log/recovery.h"

namespace tmh::test {

class LogRig {
 public:
  static constexpr std::uint64_t kFileBytes = storage::kLogFileBytesMin;
  static constexpr std::uint32_t kSegments = 2;
  // Per segment; segment 1 begins at an offset in its file.
  static constexpr std::uint64_t kPages = 8;

  struct Write {
    std::uint32_t segment = 0;
    std::uint64_t page = 0;
    std::uint32_t word = 0;  // 0 to 511
    std::uint64_t value = 0;
  };
  struct Transaction {
    std::vector<Write> writes;
    std::uint64_t stamp = 0, time_ns = 0;
    storage::Lsn begin = 0, end = 0;  // first part or commit; behind the commit
  };
  using Image = std::vector<std::uint64_t>;  // both segments' words

  // Makes the folder's files and recovers the empty log once, so that generation 1 is open.
  explicit LogRig(const std::string &folder, std::uint64_t pages = kPages);

  // part_bytes: about how large a record may get before the transaction goes on in another one.
  const Transaction &commit(std::vector<Write> writes,
                            std::size_t part_bytes = storage::kRecordBytesMax);
  // A transaction of one item that is no page difference.
  void append_item(storage::ItemKind kind, const void *body, std::size_t bytes);
  // Parts of a transaction whose commit record never comes.
  void append_orphan(std::vector<Write> writes);
  void sync();
  // What the next transactions' times begin behind.
  void set_clock(std::uint64_t time_ns) { time_ns_ = time_ns; }
  // What a power cut may leave: each sector of 512 bytes written since the last sync() is the new
  // or the old one, as `keeps_new` says.
  void lose_unsynced(const std::function<bool()> &keeps_new);

  // Everything home, and a checkpoint that says so.
  void checkpoint(bool is_clean = false);
  // The log file in front of the older checkpoint becomes the next file of the log. False when
  // nothing is free.
  bool recycle();

  [[nodiscard]] Errc recover(storage::RecoveryReport *report,
                             const storage::RecoveryOptions &options = {});
  // The log that damage is done to: a few transactions, one of them in parts, the last ones not
  // synced. Two generations: recovery reads from the older checkpoint when the newer one is
  // damaged.
  [[nodiscard]] Errc write_small_log();
  // Without the opening record, and the model stays as it is.
  [[nodiscard]] Errc recover_only(storage::RecoveryReport *report,
                                  const storage::RecoveryOptions &options = {});
  // Data files as they are now.
  [[nodiscard]] Image home() const;
  // After the first `count` transactions.
  [[nodiscard]] Image expected(std::size_t count) const;
  [[nodiscard]] Image expected() const { return expected(transactions_.size()); }
  // Of how many transactions do the data files hold the effect? -1: of no prefix.
  [[nodiscard]] int prefix_of(const Image &image) const;

  // How many transactions were durable at the last sync(), or when `lsn` was.
  [[nodiscard]] std::size_t durable_count() const { return count_before(durable_); }
  [[nodiscard]] std::size_t count_before(storage::Lsn lsn) const;
  // Forgets all transactions but the first `count`.
  void keep(std::size_t count) { transactions_.resize(count); }

  [[nodiscard]] const std::string &folder() const noexcept { return folder_; }
  [[nodiscard]] const storage::ControlFile &control() const noexcept { return *control_; }
  [[nodiscard]] storage::LogIdentity identity() const noexcept;
  [[nodiscard]] const std::vector<Transaction> &transactions() const noexcept {
    return transactions_;
  }
  [[nodiscard]] storage::Lsn end() const noexcept { return end_; }
  [[nodiscard]] storage::Lsn durable() const noexcept { return durable_; }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }
  [[nodiscard]] std::string log_path(std::uint64_t index) const {
    return storage::log_file_path(folder_, index);
  }
  // Header positions of all records written since the last sync, or ever.
  struct Record {
    storage::Lsn at, end, durable_before;
    std::uint32_t generation;
  };
  [[nodiscard]] const std::vector<Record> &records() const noexcept { return records_; }

  // A copy of the whole folder as bytes, and back.
  using Files = std::map<std::string, std::string>;
  [[nodiscard]] Files snapshot() const;
  void restore(const Files &files);  // durable

 private:
  void append(const std::string &record);
  void make_files_up_to(std::uint64_t index) const;
  [[nodiscard]] std::string data_path(std::uint32_t segment) const;
  [[nodiscard]] storage::RecordHeaderV1 fields(storage::RecordKind kind) const;
  std::string encode(const std::vector<Write> &writes, storage::RecordHeaderV1 header) const;
  void place_for(std::size_t bytes);
  void append_records(const std::vector<std::vector<Write>> &parts, bool commit, Transaction *made);
  [[nodiscard]] std::size_t index_of(const Write &write) const noexcept {
    return ((write.segment * pages_) + write.page) * 512 + write.word;
  }

  std::string folder_;
  std::uint64_t pages_;
  std::unique_ptr<storage::ControlFile> control_;
  std::vector<Transaction> transactions_;
  std::vector<Record> records_;
  // (file, sector), as the last sync() left them.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> old_sectors_;
  storage::Lsn end_ = 0, durable_ = 0;
  std::uint32_t generation_ = 0;
  std::uint64_t stamp_ = 1, time_ns_ = 1000;
};

}  // namespace tmh::test
