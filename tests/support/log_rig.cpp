// tests/support/log_rig.cpp -- writes logs by hand.
#include "tests/support/log_rig.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "platform/failure.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

namespace fs = std::filesystem;
using storage::CheckpointFile;
using storage::CheckpointV1;
using storage::LogIdentity;
using storage::Lsn;
using storage::RecordHeaderV1;
using storage::RecordKind;

namespace {
void check(Errc error) {
  if (error != Errc::kOk)
    throw std::runtime_error(std::string(message(error)) + ": " + platform::failure_detail());
}
// Whoever has a rig recovers in its own process, thousands of times, and each reads its log into
// memory of its own. Had anew from the kernel each time, a page a fault, that was half of such a
// test's time.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

constexpr std::uint64_t kSectorBytes = 512;
constexpr std::uint64_t kOffsetPages[] = {0, 3};  // of each segment in its file
}  // namespace

LogRig::LogRig(const std::string &folder, std::uint64_t pages)
    : folder_(folder), pages_(pages), control_(storage::new_control(0, 1ull << 44)) {
  keep_freed_memory();
  for (std::uint32_t i = 0; i < kSegments; ++i) {
    storage::SegmentRecordV1 &record = control_->segments[i];
    record.state = static_cast<std::uint32_t>(storage::RecordState::kUsed);
    record.layout = 2;
    record.offset_bytes = kOffsetPages[i] * kPageBytes;
    record.max_bytes = 2 * pages_ * kPageBytes;
    const std::string name = "data." + std::to_string(i);
    std::memcpy(record.name, name.data(), name.size());
    storage::seal(&record);
    storage::store_size(&record, pages_ * kPageBytes);
    write_file(data_path(i), std::string((kOffsetPages[i] + pages_) * kPageBytes, '\0'));
  }
  check(storage::create_log_file(folder_, identity(), 0));
  CheckpointV1 first{};
  std::copy(std::begin(control_->header.domain_id), std::end(control_->header.domain_id),
            std::begin(first.domain_id));
  first.log_file_bytes = kFileBytes;
  first.lsn = first.durable_lsn = first.previous_lsn = storage::kFirstLsn;
  first.stamp = stamp_;
  first.is_clean = 1;
  CheckpointFile file;
  check(file.create(folder_, first));
  storage::RecoveryReport report;
  check(recover(&report));
}

LogIdentity LogRig::identity() const noexcept {
  return {{control_->header.domain_id[0], control_->header.domain_id[1]}, kFileBytes};
}

std::string LogRig::data_path(std::uint32_t segment) const {
  return folder_ + "/data." + std::to_string(segment);
}

RecordHeaderV1 LogRig::fields(RecordKind kind) const {
  RecordHeaderV1 header{};
  header.kind = static_cast<std::uint16_t>(kind);
  header.lsn = end_;
  header.generation = generation_;
  header.stamp = stamp_;
  header.durable_before = durable_;
  return header;
}

void LogRig::make_files_up_to(std::uint64_t index) const {
  while (!fs::exists(log_path(index))) {
    std::uint64_t next = index;
    while (next > 0 && !fs::exists(log_path(next - 1))) --next;
    check(storage::create_log_file(folder_, identity(), next));
  }
}

void LogRig::append(const std::string &record) {
  make_files_up_to(end_ / kFileBytes);
  platform::DiskFile file;
  check(file.open(log_path(end_ / kFileBytes), platform::DiskFile::Mode::kReadWrite));
  const std::uint64_t from = end_ % kFileBytes;
  for (std::uint64_t sector = from / kSectorBytes;
       sector <= (from + record.size() - 1) / kSectorBytes; ++sector) {
    std::string old(kSectorBytes, '\0');
    std::size_t got = 0;
    check(file.read(sector * kSectorBytes, old.data(), old.size(), &got));
    old_sectors_.try_emplace({end_ / kFileBytes, sector}, old);
  }
  check(file.write(end_ % kFileBytes, record.data(), record.size()));
  records_.push_back({end_, end_ + record.size(), durable_, generation_});
  end_ += record.size();
}

void LogRig::place_for(std::size_t bytes) {
  const Lsn lsn = storage::place(end_, bytes, kFileBytes);
  if (lsn == end_) return;
  if (end_ % kFileBytes != 0 && kFileBytes - end_ % kFileBytes >= storage::kFileEndRecordBytes) {
    std::string record(storage::kFileEndRecordBytes, '\0');
    storage::write_file_end_record(reinterpret_cast<std::byte *>(record.data()),
                                   fields(RecordKind::kFileEnd));
    append(record);
  }
  end_ = lsn;
}

std::string LogRig::encode(const std::vector<Write> &writes, RecordHeaderV1 header) const {
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::map<std::uint32_t, std::uint64_t>> by_page;
  for (const Write &write : writes)
    by_page[{write.segment, write.page}][write.word] = write.value;  // the last one counts
  std::string bytes(storage::kRecordBytesMax, '\0');
  storage::RecordBuilder builder(reinterpret_cast<std::byte *>(bytes.data()), bytes.size());
  for (const auto &[page, words] : by_page) {
    std::array<std::uint64_t, 512> data{};
    std::array<std::uint8_t, 64> masks{};
    storage::LineMask lines = 0;
    for (const auto &[word, value] : words) {
      data[word] = value;
      masks[word / 8] = static_cast<std::uint8_t>(masks[word / 8] | (1u << (word % 8)));
      lines |= 1ull << (word / 8);
    }
    if (!builder.add(storage::page_id(page.first, storage::PageIndex{page.second}), lines,
                     masks.data(), reinterpret_cast<const std::byte *>(data.data())))
      throw std::runtime_error("a record of the rig is too large");
  }
  bytes.resize(builder.finish(header));
  return bytes;
}

void LogRig::append_records(const std::vector<std::vector<Write>> &parts, bool commit,
                            Transaction *made) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = commit && i + 1 == parts.size();
    RecordHeaderV1 header = fields(last ? RecordKind::kCommit : RecordKind::kPart);
    const std::size_t bytes = encode(parts[i], header).size();
    place_for(bytes);
    total += bytes;
    header = fields(last ? RecordKind::kCommit : RecordKind::kPart);
    header.stamp = stamp_ + 1;
    header.part = static_cast<std::uint32_t>(i);
    header.time_ns = last ? time_ns_ : 0;
    header.total_bytes = last ? total : 0;
    if (i == 0) made->begin = end_;
    append(encode(parts[i], header));
  }
  made->end = end_;
}

const LogRig::Transaction &LogRig::commit(std::vector<Write> writes, std::size_t part_bytes) {
  // A word costs at most 16 + 8 + 8 bytes; parts by number of words, roughly.
  const std::size_t words_max = std::max<std::size_t>(1, part_bytes / 32);
  std::vector<std::vector<Write>> parts(1);
  for (const Write &write : writes) {
    if (parts.back().size() >= words_max) parts.emplace_back();
    parts.back().push_back(write);
  }
  time_ns_ += 10;
  Transaction made;
  append_records(parts, true, &made);
  made.writes = std::move(writes);
  made.stamp = ++stamp_;
  made.time_ns = time_ns_;
  transactions_.push_back(std::move(made));
  return transactions_.back();
}

void LogRig::append_item(storage::ItemKind kind, const void *body, std::size_t bytes) {
  const std::size_t length = storage::kRecordHeaderBytes + storage::item_bytes(bytes);
  std::string record(length, '\0');
  storage::RecordBuilder builder(reinterpret_cast<std::byte *>(record.data()), length);
  if (!builder.add(kind, body, bytes)) throw std::runtime_error("an item of the rig is too large");
  place_for(length);
  Transaction made;
  made.begin = end_;
  made.end = end_ + length;
  made.stamp = ++stamp_;
  made.time_ns = time_ns_ += 10;
  RecordHeaderV1 header = fields(RecordKind::kCommit);
  header.stamp = made.stamp;
  header.time_ns = made.time_ns;
  header.total_bytes = length;
  builder.finish(header);
  append(record);
  transactions_.push_back(std::move(made));
}

void LogRig::append_orphan(std::vector<Write> writes) {
  Transaction unfinished;
  append_records({std::move(writes)}, false, &unfinished);
}

void LogRig::sync() {
  durable_ = end_;
  old_sectors_.clear();
}

void LogRig::lose_unsynced(const std::function<bool()> &keeps_new) {
  for (const auto &[where, old] : old_sectors_) {
    if (!keeps_new()) patch_file(log_path(where.first), where.second * kSectorBytes, old);
  }
  old_sectors_.clear();
}

LogRig::Image LogRig::expected(std::size_t count) const {
  Image image(kSegments * pages_ * 512);
  for (std::size_t i = 0; i < count; ++i) {
    for (const Write &write : transactions_[i].writes) image[index_of(write)] = write.value;
  }
  return image;
}

LogRig::Image LogRig::home() const {
  Image image(kSegments * pages_ * 512);
  for (std::uint32_t i = 0; i < kSegments; ++i) {
    const std::string bytes = read_file(data_path(i));
    if (bytes.size() != (kOffsetPages[i] + pages_) * kPageBytes)
      throw std::runtime_error("data file has another length");
    for (std::uint64_t at = 0; at < kOffsetPages[i] * kPageBytes; ++at) {
      if (bytes[at] != 0) throw std::runtime_error("stored in front of a segment");
    }
    std::memcpy(&image[i * pages_ * 512], bytes.data() + kOffsetPages[i] * kPageBytes,
                pages_ * kPageBytes);
  }
  return image;
}

int LogRig::prefix_of(const Image &image) const {
  Image so_far(image.size());
  int found = so_far == image ? 0 : -1;
  for (std::size_t i = 0; i < transactions_.size(); ++i) {
    for (const Write &write : transactions_[i].writes) so_far[index_of(write)] = write.value;
    // The longest: a transaction may change nothing.
    if (so_far == image) found = static_cast<int>(i + 1);
  }
  return found;
}

std::size_t LogRig::count_before(Lsn lsn) const {
  std::size_t count = 0;
  while (count < transactions_.size() && transactions_[count].end <= lsn) ++count;
  return count;
}

void LogRig::checkpoint(bool is_clean) {
  sync();
  const Image image = expected();
  for (std::uint32_t i = 0; i < kSegments; ++i) {
    std::string bytes(kOffsetPages[i] * kPageBytes, '\0');
    bytes.append(reinterpret_cast<const char *>(&image[i * pages_ * 512]), pages_ * kPageBytes);
    write_file(data_path(i), bytes);
  }
  CheckpointFile file;
  check(file.open(folder_, control_->header.domain_id));
  CheckpointV1 next = file.current();
  next.generation = generation_;
  next.lsn = next.durable_lsn = end_;
  next.stamp = stamp_;
  next.is_clean = is_clean ? 1 : 0;
  check(file.store(next));
}

bool LogRig::recycle() {
  CheckpointFile file;
  check(file.open(folder_, control_->header.domain_id));
  std::vector<std::uint64_t> indexes;
  check(storage::list_log_files(folder_, &indexes));
  if (indexes.front() >= file.current().previous_lsn / kFileBytes) return false;
  check(storage::recycle_log_file(folder_, identity(), indexes.front(), indexes.back() + 1));
  return true;
}

Errc LogRig::recover_only(storage::RecoveryReport *report,
                          const storage::RecoveryOptions &options) {
  CheckpointFile file;
  if (const Errc error = file.open(folder_, control_->header.domain_id); error != Errc::kOk)
    return error;
  storage::RecoveryOptions own = options;
  if (own.threads == 0) own.threads = 1;
  return storage::recover(folder_, *control_, &file, own, report);
}

Errc LogRig::recover(storage::RecoveryReport *report, const storage::RecoveryOptions &options) {
  if (const Errc error = recover_only(report, options); error != Errc::kOk) return error;
  generation_ = report->generation;
  stamp_ = report->last_stamp;
  end_ = durable_ = report->next_lsn;
  std::string record(storage::kOpenRecordBytes, '\0');
  RecordHeaderV1 header = fields(RecordKind::kOpen);
  header.time_ns = time_ns_;
  storage::write_open_record(reinterpret_cast<std::byte *>(record.data()), header, report->open);
  append(record);
  sync();
  CheckpointFile file;
  if (const Errc error = file.open(folder_, control_->header.domain_id); error != Errc::kOk)
    return error;
  CheckpointV1 promise = file.current();
  promise.durable_lsn = durable_;
  return file.store(promise);
}

LogRig::Files LogRig::snapshot() const {
  Files files;
  for (const auto &entry : fs::directory_iterator(folder_)) {
    if (entry.is_regular_file()) files[entry.path().filename()] = read_file(entry.path());
  }
  return files;
}

void LogRig::restore(const Files &files) {
  old_sectors_.clear();
  for (const auto &entry : fs::directory_iterator(folder_)) {
    if (entry.is_regular_file() && !files.contains(entry.path().filename()))
      fs::remove(entry.path());
  }
  for (const auto &[name, bytes] : files) write_file(folder_ + "/" + name, bytes);
}

Errc LogRig::write_small_log() {
  commit({{0, 0, 0, 1}});
  sync();
  storage::RecoveryReport report;
  if (const Errc error = recover(&report); error != Errc::kOk) return error;
  commit({{0, 1, 1, 2}, {1, 1, 9, 3}});
  sync();
  commit({{0, 2, 2, 4}, {0, 3, 3, 5}, {1, 4, 4, 6}}, 64);  // parts
  commit({{1, 0, 511, 7}});
  sync();
  commit({{0, 0, 0, 8}, {0, 0, 1, 9}, {0, 0, 2, 10}});
  commit({{0, 7, 100, 11}});
  return Errc::kOk;
}

}  // namespace tmh::test
