// tools/skew_records.cpp -- see skew_records.h.
#include "tools/skew_records.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "platform/assert.h"
#include "platform/files.h"
#include "storage/page_id.h"
#include "tools/failure.h"
#include "tools/print.h"

namespace tmh::tools {

using observe::SkewHeaderV1;
using observe::SkewInstance;
using observe::SkewKind;
using observe::SkewPair;
using observe::SkewRecordV1;

namespace {

// A page's segment and index, of a word that may be anything.
bool is_page(std::uint64_t word) noexcept {
  return storage::segment_number(storage::PageId{word}) < storage::kSegmentsMax &&
         storage::page_offset(storage::PageId{word}) < storage::kSegmentBytesMax;
}

// The words of one record, taken one after the other.
class Words {
 public:
  explicit Words(const std::vector<std::uint64_t> &words) noexcept : words_(words) {}
  [[nodiscard]] std::vector<SkewPair> take_pairs(std::size_t count) {
    TMH_ASSERT(at_ + 2 * count <= words_.size());
    std::vector<SkewPair> pairs(count);
    for (SkewPair &pair : pairs) {
      pair = {words_[at_], words_[at_ + 1]};
      at_ += 2;
    }
    return pairs;
  }
  [[nodiscard]] std::string take_text(std::size_t bytes) {
    TMH_ASSERT(at_ + (bytes + 7) / 8 <= words_.size());
    std::string text(reinterpret_cast<const char *>(words_.data() + at_), bytes);
    at_ += (bytes + 7) / 8;
    return text;
  }

 private:
  const std::vector<std::uint64_t> &words_;
  std::size_t at_ = sizeof(SkewRecordV1) / sizeof(std::uint64_t);
};

bool are_runs(const std::vector<SkewPair> &runs) noexcept {
  std::uint64_t end = 0;
  for (const SkewPair &run : runs) {
    const std::uint64_t last = run.first + run.second - 1;
    if (run.second == 0 || last < run.first || run.first < end || !is_page(run.first) ||
        !is_page(last))
      return false;
    end = last + 1;
  }
  return true;
}

// Sorted, one entry per page.
bool settle_lines(std::vector<SkewPair> *all) {
  TMH_ASSERT(all != nullptr);
  const auto is_wrong = [](const SkewPair &one) { return one.second == 0 || !is_page(one.first); };
  if (std::any_of(all->begin(), all->end(), is_wrong)) return false;
  std::sort(all->begin(), all->end());
  std::size_t kept = 0;
  for (const SkewPair &one : *all) {
    if (kept > 0 && (*all)[kept - 1].first == one.first)
      (*all)[kept - 1].second |= one.second;
    else
      (*all)[kept++] = one;
  }
  all->resize(kept);
  return true;
}

// Nothing: torn, or damaged. *bytes: what follows it.
std::optional<SkewInstance> take_record(std::string_view *bytes) {
  static_assert(sizeof(SkewRecordV1) % sizeof(std::uint64_t) == 0, "a record is words");
  TMH_ASSERT(bytes != nullptr);
  SkewRecordV1 head;
  if (bytes->size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes->data(), sizeof head);
  const std::uint64_t record_bytes = std::uint64_t{head.word_count} * sizeof(std::uint64_t);
  const std::uint64_t site_words = (std::uint64_t{head.site_bytes} + 7) / 8;
  const std::uint64_t pairs =
      std::uint64_t{head.read_count} + head.write_count + head.promotion_count;
  if (record_bytes < sizeof head || record_bytes > bytes->size() ||
      record_bytes != sizeof head + 8 * site_words + 16 * pairs)
    return std::nullopt;
  std::vector<std::uint64_t> words(head.word_count);
  std::memcpy(words.data(), bytes->data(), record_bytes);
  if (observe::skew_checksum(words.data() + 1, words.size() - 1) != head.checksum)
    return std::nullopt;
  const std::uint32_t kind = head.kind & ~observe::kSkewReadsUnknown;
  if (kind < static_cast<std::uint32_t>(SkewKind::kQuery) ||
      kind > static_cast<std::uint32_t>(SkewKind::kSerializable) || head.snapshot > head.end)
    return std::nullopt;
  SkewInstance instance;
  instance.kind = static_cast<SkewKind>(kind);
  instance.has_unknown_reads = (head.kind & observe::kSkewReadsUnknown) != 0;
  instance.snapshot = head.snapshot;
  instance.end = head.end;
  Words rest(words);
  instance.site = printable(rest.take_text(head.site_bytes));
  instance.reads = rest.take_pairs(head.read_count);
  instance.writes = rest.take_pairs(head.write_count);
  instance.promotions = rest.take_pairs(head.promotion_count);
  if (!are_runs(instance.reads) || !settle_lines(&instance.writes) ||
      !settle_lines(&instance.promotions))
    return std::nullopt;
  bytes->remove_prefix(record_bytes);
  return instance;
}

}  // namespace

std::optional<SkewRecording> parse_skew(const std::string &path, std::string_view bytes) {
  SkewHeaderV1 header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != observe::kSkewMagic)
    refuse(Errc::kCorrupt, path + " is no recording of read sets");
  if (header.version != observe::kSkewVersion || header.header_bytes != sizeof header)
    refuse(Errc::kForeignVersion, path + " is a recording of another version");
  SkewRecording recording;
  recording.name = printable({header.name, ::strnlen(header.name, sizeof header.name)});
  recording.pid = header.pid;
  std::copy(std::begin(header.domain_id), std::end(header.domain_id), recording.domain_id);
  recording.life = header.life;
  recording.is_cut = header.is_cut != 0;
  bytes.remove_prefix(sizeof header);
  while (std::optional<SkewInstance> instance = take_record(&bytes))
    recording.instances.push_back(*std::move(instance));
  recording.unread_bytes = bytes.size();
  return recording;
}

std::vector<SkewRecording> read_skew_files(const std::string &folder,
                                           const std::uint64_t (&domain_id)[2],
                                           std::uint64_t *foreign) {
  TMH_ASSERT(foreign != nullptr);
  std::vector<std::string> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(observe::kSkewPrefix))
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<SkewRecording> recordings;
  for (const std::string &path : paths) {
    std::string bytes;
    errno = 0;
    const Errc error = platform::read_file(path, observe::kSkewBytesMax, &bytes);
    if (error != Errc::kOk && errno == ENOENT) continue;  // removed meanwhile
    check(error);
    std::optional<SkewRecording> recording = parse_skew(path, bytes);
    if (!recording) continue;
    if (std::equal(std::begin(domain_id), std::end(domain_id), recording->domain_id))
      recordings.push_back(*std::move(recording));
    else
      ++*foreign;
  }
  return recordings;
}

}  // namespace tmh::tools
