// observe/skew.cpp -- see skew.h.
#include "observe/skew.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::observe {

using platform::fail_errno;

std::uint64_t skew_checksum(const std::uint64_t *words, std::size_t count) noexcept {
  TMH_ASSERT(words != nullptr || count == 0);
  std::uint64_t sum = 0xcbf2'9ce4'8422'2325ull;
  for (std::size_t i = 0; i < count; ++i) sum = (sum ^ words[i]) * 0x100'0000'01b3ull;
  return sum;
}

namespace {

constexpr std::size_t kHeadWords = sizeof(SkewRecordV1) / sizeof(std::uint64_t);

void append_pairs(const std::vector<SkewPair> &pairs, std::vector<std::uint64_t> *words) {
  for (const SkewPair &pair : pairs) words->insert(words->end(), {pair.first, pair.second});
}

}  // namespace

void append_skew_record(const SkewInstance &instance, std::vector<std::uint64_t> *words) {
  TMH_ASSERT(words != nullptr);
  const std::size_t begin = words->size();
  const std::size_t site_words = (instance.site.size() + 7) / 8;
  words->resize(begin + kHeadWords + site_words);
  if (!instance.site.empty())
    std::memcpy(words->data() + begin + kHeadWords, instance.site.data(), instance.site.size());
  append_pairs(instance.reads, words);
  append_pairs(instance.writes, words);
  append_pairs(instance.promotions, words);
  SkewRecordV1 head{};
  head.word_count = static_cast<std::uint32_t>(words->size() - begin);
  head.kind = static_cast<std::uint32_t>(instance.kind) |
              (instance.has_unknown_reads ? kSkewReadsUnknown : 0);
  head.snapshot = instance.snapshot;
  head.end = instance.end;
  head.site_bytes = static_cast<std::uint32_t>(instance.site.size());
  head.read_count = static_cast<std::uint32_t>(instance.reads.size());
  head.write_count = static_cast<std::uint32_t>(instance.writes.size());
  head.promotion_count = static_cast<std::uint32_t>(instance.promotions.size());
  std::memcpy(words->data() + begin, &head, sizeof head);
  (*words)[begin] = skew_checksum(words->data() + begin + 1, words->size() - begin - 1);
}

Errc SkewRecorder::open(const std::string &folder, const SkewOwner &owner,
                        std::unique_ptr<SkewRecorder> *out) noexcept try {
  TMH_ASSERT(out != nullptr);
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "%016llx.%llu",
                static_cast<unsigned long long>(owner.life),
                static_cast<unsigned long long>(owner.incarnation));
  const std::string path = folder + '/' + std::string(kSkewPrefix) + name.data();
  // Of another domain, which had the folder before.
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(Errc::kIo, path);
  platform::FileDescriptor file;
  TMH_TRY(
      platform::open_regular(path, O_WRONLY | O_CREAT | O_EXCL, platform::FileRole::kOwn, &file));
  SkewHeaderV1 header{};
  header.magic = kSkewMagic;
  header.version = kSkewVersion;
  header.header_bytes = sizeof header;
  header.pid = ::getpid();
  header.slot = owner.slot;
  std::copy(std::begin(owner.domain_id), std::end(owner.domain_id), header.domain_id);
  header.life = owner.life;
  header.incarnation = owner.incarnation;
  std::memcpy(header.name, owner.name.data(), std::min(owner.name.size(), sizeof header.name - 1));
  if (::write(file.get(), &header, sizeof header) != static_cast<ssize_t>(sizeof header))
    return fail_errno(errno == ENOSPC ? Errc::kDiskFull : Errc::kIo, path);
  *out = std::unique_ptr<SkewRecorder>(new SkewRecorder(std::move(file)));
  (*out)->bytes_ = sizeof header;
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the recorder of read sets");
}

void SkewRecorder::clear() {
  instance_.site = site_;
  instance_.has_unknown_reads = false;
  instance_.reads.clear();
  instance_.writes.clear();
  instance_.promotions.clear();
  pages_.clear();
}

void SkewRecorder::append() {
  TMH_ASSERT(!is_cut_ && instance_.reads.empty());
  std::sort(pages_.begin(), pages_.end());
  for (const std::uint64_t page : pages_) {
    const bool is_next = !instance_.reads.empty() &&
                         instance_.reads.back().first + instance_.reads.back().second >= page;
    if (!is_next)
      instance_.reads.push_back({page, 1});
    else if (instance_.reads.back().first + instance_.reads.back().second == page)
      ++instance_.reads.back().second;
  }
  words_.clear();
  append_skew_record(instance_, &words_);
  const std::size_t bytes = words_.size() * sizeof(std::uint64_t);
  if (bytes_ + bytes > kSkewBytesMax) return cut();
  const int before = errno;
  const auto *from = reinterpret_cast<const char *>(words_.data());
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t written = ::write(file_.get(), from + done, bytes - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      cut();
      break;
    }
    done += static_cast<std::size_t>(written);
  }
  bytes_ += bytes;
  errno = before;
}

// The header's block is there.
void SkewRecorder::cut() noexcept {
  is_cut_ = true;
  const std::uint64_t yes = 1;
  (void)!::pwrite(file_.get(), &yes, sizeof yes, offsetof(SkewHeaderV1, is_cut));
}

}  // namespace tmh::observe
