// tests/power/simulated_disk.cpp -- following a journal.
#include "tests/power/simulated_disk.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "tests/support/temp_folder.h"

namespace tmh::test::power {

using platform::DiskOp;

bool survives_reboot(std::string_view name) noexcept {
  for (const std::string_view file :
       {"tmh.state", "tmh.participants", "tmh.commits", "tmh.accesses", "tmh.log.state", "tmh.lock",
        "tmh.line.state", "tmh.contexts", "tmh.latency", "tmh.locks"}) {
    if (name == file) return false;
  }
  for (const std::string_view files : {"tmh.versions.", "tmh.pages.", "tmh.lines.",
                                       "tmh.directory.", "tmh.home.", "tmh.changes."}) {
    if (name.starts_with(files)) return false;
  }
  return true;
}

void SimulatedDisk::load() {
  for (const auto &found : std::filesystem::recursive_directory_iterator(folder_)) {
    if (!found.is_regular_file()) continue;
    const std::string name = found.path().lexically_relative(folder_).string();
    if (!survives_reboot(name)) continue;
    const std::string bytes = test::read_file(found.path().string());
    File file;
    const auto *begin = reinterpret_cast<const std::byte *>(bytes.data());
    file.content.assign(begin, begin + bytes.size());
    file.bytes = file.durable_bytes = bytes.size();
    names_[name] = durable_names_[name] = files_.size();
    files_.push_back(std::move(file));
  }
}

bool SimulatedDisk::ours(std::string_view path, std::string *name) const {
  if (!path.starts_with(folder_)) return false;
  path.remove_prefix(folder_.size());
  if (!path.empty() && path.front() != '/') return false;
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  *name = std::filesystem::path(path).lexically_normal().string();
  return path.empty() || survives_reboot(*name);
}

std::size_t SimulatedDisk::file_of(const std::string &name, std::uint64_t number) {
  if (const auto known = names_.find(name); known != names_.end()) return known->second;
  // A rename whose process was killed in it has happened after all, if its new name is used.
  for (const NameChange &change : name_changes_) {
    if (!change.uncertain || change.op != DiskOp::kRename || change.name2 != name) continue;
    names_.erase(change.name);
    names_[name] = change.file;
    return change.file;
  }
  strays_.push_back(name);
  files_.emplace_back();
  names_[name] = files_.size() - 1;
  name_changes_.push_back({number, DiskOp::kCreate, name, {}, files_.size() - 1, false});
  return files_.size() - 1;
}

void SimulatedDisk::apply(const Entry &entry) {
  last_ = entry.number;
  std::string name;
  if (entry.is_note() || !ours(entry.path, &name)) return;
  switch (entry.op()) {
    case DiskOp::kWrite:
    case DiskOp::kHomeWrite:
    case DiskOp::kWriteDurable:
      write(&files_[file_of(name, entry.number)], entry, entry.offset, entry.data.size(),
            entry.data.data());
      if (entry.op() != DiskOp::kWriteDurable) break;
      in_flight_.insert(entry.number);
      begin_operation(entry, name);
      break;
    case DiskOp::kSync:
      begin_operation(entry, name);
      break;
    case DiskOp::kFolderSync:
      running_[entry.thread] = {entry.number, 0, 0, 0, name};
      break;
    case DiskOp::kWriteDone:
    case DiskOp::kSyncDone:
    case DiskOp::kFolderSyncDone:
      end_operation(entry);
      break;
    case DiskOp::kTruncate:
      set_length(&files_[file_of(name, entry.number)], entry, entry.offset);
      break;
    case DiskOp::kCreate:
    case DiskOp::kRename:
    case DiskOp::kUnlink:
      change_names(entry, name);
      break;
  }
}

void SimulatedDisk::begin_operation(const Entry &entry, const std::string &name) {
  running_[entry.thread] = {
      entry.number, file_of(name, entry.number), entry.offset, entry.data.size(), {}};
}

void SimulatedDisk::end_operation(const Entry &entry) {
  const auto found = running_.find(entry.thread);
  if (found == running_.end()) return;
  const Running done = found->second;
  running_.erase(found);
  if (entry.op() == DiskOp::kFolderSyncDone) return sync_folder(done.folder, done.number);
  in_flight_.erase(done.number);
  File &file = files_[done.file];
  if (entry.op() == DiskOp::kSyncDone) return sync_file(&file, done.number);
  const std::uint64_t end = done.offset + done.bytes;
  auto at = file.pending.lower_bound(done.offset / kSectorBytes);
  while (at != file.pending.end() && at->first * kSectorBytes < end) {
    make_durable(&file, &at->second, at->first, done.number + 1);
    at = at->second.empty() ? file.pending.erase(at) : std::next(at);
  }
  make_length_durable(&file, done.number + 1);
}

void SimulatedDisk::write(File *file, const Entry &entry, std::uint64_t offset, std::uint64_t bytes,
                          const std::byte *data) {
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t sector = at / kSectorBytes;
    const std::uint64_t stop = std::min(end, (sector + 1) * kSectorBytes);
    file->pending[sector].push_back({entry.number, static_cast<std::uint32_t>(at % kSectorBytes),
                                     static_cast<std::uint32_t>(stop - sector * kSectorBytes),
                                     data == nullptr ? nullptr : data + (at - offset),
                                     entry.uncertain});
    at = stop;
  }
  if (end > file->bytes && data != nullptr) {
    file->lengths.push_back({entry.number, end, entry.uncertain});
    file->bytes = end;
  }
}

void SimulatedDisk::set_length(File *file, const Entry &entry, std::uint64_t bytes) {
  // What a later extension shows again reads as zeros.
  if (bytes < file->bytes) write(file, entry, bytes, file->bytes - bytes, nullptr);
  file->lengths.push_back({entry.number, bytes, entry.uncertain});
  file->bytes = bytes;
}

void SimulatedDisk::change_names(const Entry &entry, const std::string &name) {
  const auto known = names_.find(name);
  if (entry.op() == DiskOp::kCreate) {
    if (known != names_.end()) return;  // it fails, and changes nothing
    files_.emplace_back();
    names_[name] = files_.size() - 1;
    name_changes_.push_back(
        {entry.number, entry.op(), name, {}, files_.size() - 1, entry.uncertain});
    return;
  }
  if (known == names_.end()) return;
  const std::size_t file = known->second;
  std::string name2;
  if (entry.op() == DiskOp::kRename && !ours(entry.path2, &name2)) return;
  name_changes_.push_back({entry.number, entry.op(), name, name2, file, entry.uncertain});
  if (entry.uncertain) return;  // whoever uses the new name says that it happened
  names_.erase(known);
  if (entry.op() == DiskOp::kRename) names_[name2] = file;
}

// Writes recorded before `before` go into the sector's durable content. Uncertain ones stay open
// until something certain covers them.
void SimulatedDisk::make_durable(File *file, std::vector<Write> *writes, std::uint64_t sector,
                                 std::uint64_t before) const {
  std::vector<Write> left;
  for (const Write &write : *writes) {
    if (write.number >= before || write.uncertain || in_flight_.contains(write.number)) {
      left.push_back(write);
      continue;
    }
    left.clear();  // open ones before it: it stands in their place
    const std::uint64_t base = sector * kSectorBytes;
    if (file->content.size() < base + write.end) file->content.resize(base + write.end);
    std::byte *to = file->content.data() + base + write.begin;
    if (write.data == nullptr)
      std::memset(to, 0, write.end - write.begin);
    else
      std::memcpy(to, write.data, write.end - write.begin);
  }
  *writes = std::move(left);
}

// The last certain length recorded before `before` stands in the place of all before it, uncertain
// ones too.
void SimulatedDisk::make_length_durable(File *file, std::uint64_t before) {
  auto open = file->lengths.begin();
  for (auto at = open; at != file->lengths.end() && at->number < before; ++at) {
    if (at->uncertain) continue;
    file->durable_bytes = at->bytes;
    open = std::next(at);
  }
  file->lengths.erase(file->lengths.begin(), open);
}

void SimulatedDisk::sync_file(File *file, std::uint64_t before) {
  for (auto at = file->pending.begin(); at != file->pending.end();) {
    make_durable(file, &at->second, at->first, before);
    at = at->second.empty() ? file->pending.erase(at) : std::next(at);
  }
  make_length_durable(file, before);
}

namespace {

std::string folder_part(const std::string &name) {
  return std::filesystem::path(name).parent_path().string();
}

template <class Change, class Names>
void do_change(const Change &change, Names *names) {
  if (change.op != DiskOp::kCreate) names->erase(change.name);
  if (change.op == DiskOp::kCreate) (*names)[change.name] = change.file;
  if (change.op == DiskOp::kRename) (*names)[change.name2] = change.file;
}

}  // namespace

void SimulatedDisk::sync_folder(const std::string &folder, std::uint64_t before) {
  const auto covered = [&](const NameChange &change) {
    return change.number < before && !change.uncertain && folder_part(change.name) == folder;
  };
  for (const NameChange &change : name_changes_) {
    if (covered(change)) do_change(change, &durable_names_);
  }
  std::erase_if(name_changes_, covered);
  // What a killed process was about to do, and what became of it afterwards: settled once the
  // folder shows it durably.
  std::erase_if(name_changes_, [&](const NameChange &change) {
    if (!change.uncertain || change.number >= before) return false;
    const std::string &result = change.op == DiskOp::kRename ? change.name2 : change.name;
    const auto now = names_.find(result);
    if (change.op != DiskOp::kUnlink && now != names_.end() && now->second == change.file)
      do_change(change, &durable_names_);
    return true;
  });
  forget_unreachable();
}

void SimulatedDisk::forget_unreachable() {
  std::set<std::size_t> reachable;
  for (const auto &[name, file] : names_) reachable.insert(file);
  for (const auto &[name, file] : durable_names_) reachable.insert(file);
  for (const NameChange &change : name_changes_) reachable.insert(change.file);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (!reachable.contains(i) && files_[i].bytes != 0) files_[i] = File{};
  }
}

}  // namespace tmh::test::power
