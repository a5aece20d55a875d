// tools/chain_check.cpp -- blocks, lists and records of tp.chains.
#include "tools/chain_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "compat/libtp/chain_layout.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/moment.h"
#include "tools/shared_file.h"

namespace tmh::tools {

using storage::SegmentRecordV1;
using tp::BlockHead;
using tp::BlockIndex;
using tp::BlockKind;
using tp::ChainHeader;
using tp::Place;
using tp::RecordHead;

namespace {

constexpr std::uint64_t kBlocksAtOnce = 64;
constexpr std::size_t kNamedMax = 8;

struct Head {
  std::uint32_t index;
  bool is_kept;
  Place last;
  std::uint64_t transaction, last_lsn, committed_lsn;
  std::uint32_t next_kept;
};

class ChainCheck {
 public:
  ChainCheck(const platform::FileDescriptor &file, const std::string &path,
             const SegmentRecordV1 &segment)
      : file_(file), path_(path), begin_(segment.offset_bytes) {
    if (!read_header(segment.size_bytes / tp::kBlockBytes)) return;
    read_blocks();
    take_free_list();
    for (const Head &head : heads_) check_chain(head);
    check_kept_list();
  }
  [[nodiscard]] bool is_whole() const noexcept { return problem_count_ == 0; }
  [[nodiscard]] std::string message() const {
    return is_whole() ? census() : path_ + ": " + first_problem_ + more_problems();
  }

 private:
  struct Block {
    BlockKind kind;
    std::uint32_t next;
    bool is_placed;  // in the free list, or in a chain
  };

  void tell(const std::string &problem) {
    if (problem_count_++ == 0) first_problem_ = problem;
  }
  [[nodiscard]] std::string more_problems() const {
    return problem_count_ == 1 ? "" : fmt::format("; {} more", problem_count_ - 1);
  }
  [[nodiscard]] std::string census() const {
    const auto placed = static_cast<std::uint64_t>(std::count_if(
        blocks_.begin(), blocks_.end(), [](const Block &block) { return block.is_placed; }));
    std::string text =
        fmt::format("{}, {} free, {} kept", counted(placed, "block"), free_count_, kept_count_);
    if (waiting_.empty()) return text;
    text += fmt::format("; {} not ended:", counted(waiting_.size(), "transaction"));
    for (std::size_t i = 0; i < std::min(waiting_.size(), kNamedMax); ++i)
      text += fmt::format(" {}", waiting_[i]);
    return text + (waiting_.size() > kNamedMax ? " ..." : "");
  }

  [[nodiscard]] std::vector<std::byte> read(std::uint64_t block, std::uint64_t count) const {
    return read_at(file_, path_, begin_ + block * tp::kBlockBytes, count * tp::kBlockBytes);
  }

  // False: there is nothing to go on with.
  bool read_header(std::uint64_t blocks_held) {
    const std::vector<std::byte> header = read(0, 1);
    if (header.size() < tp::kBlockBytes) {
      tell("it is shorter than its segment");
      return false;
    }
    const auto at = [&]<class T>(std::size_t offset, T *out) {
      *out = field<T>(header.data(), offset);
    };
    std::uint64_t magic = 0;
    std::uint32_t blocks = 0;
    at(offsetof(ChainHeader, magic), &magic);
    at(offsetof(ChainHeader, blocks), &blocks);
    at(offsetof(ChainHeader, first_free), &first_free_);
    at(offsetof(ChainHeader, numbers), &numbers_);
    at(offsetof(ChainHeader, first_kept), &first_kept_);
    at(offsetof(ChainHeader, last_kept), &last_kept_);
    if (magic == 0) return false;  // made, and never used
    if (magic != tp::kChainMagic) {
      tell("its header is none of chains");
      return false;
    }
    if (blocks == 0 || blocks > blocks_held) {
      tell(fmt::format("its header names {}, where {} can be", counted(blocks, "block"),
                       blocks_held));
      return false;
    }
    if (numbers_ > tp::kNumbersMax) tell("its header has numbers that nobody has drawn");
    blocks_.resize(blocks);
    return true;
  }

  void read_blocks() {
    for (std::uint64_t first = 0; first < blocks_.size(); first += kBlocksAtOnce) {
      const std::uint64_t wanted = std::min<std::uint64_t>(kBlocksAtOnce, blocks_.size() - first);
      const std::vector<std::byte> bytes = read(first, wanted);
      if (bytes.size() < wanted * tp::kBlockBytes) return tell("it is shorter than its segment");
      for (std::uint64_t i = first == 0 ? 1 : 0; i < wanted; ++i)
        learn(static_cast<std::uint32_t>(first + i), bytes.data() + i * tp::kBlockBytes);
    }
  }
  void learn(std::uint32_t index, const std::byte *head) {
    Block &block = blocks_[index];
    block.kind = field<BlockKind>(head, offsetof(BlockHead, kind));
    block.next = field<std::uint32_t>(head, offsetof(BlockHead, next));
    block.is_placed = false;
    if (block.kind > BlockKind::kKept) tell(fmt::format("block {} is of no kind", index));
    if (block.kind != BlockKind::kHead && block.kind != BlockKind::kKept) return;
    heads_.push_back({index, block.kind == BlockKind::kKept,
                      field<Place>(head, offsetof(BlockHead, last)),
                      field<std::uint64_t>(head, offsetof(BlockHead, transaction)),
                      field<std::uint64_t>(head, offsetof(BlockHead, last_lsn)),
                      field<std::uint64_t>(head, offsetof(BlockHead, committed_lsn)),
                      field<std::uint32_t>(head, offsetof(BlockHead, next_kept))});
  }

  // Of a list or chain. False: it may not be there.
  bool place(std::uint32_t index, BlockKind kind, const char *where) {
    TMH_ASSERT(where != nullptr);
    if (index == 0 || index >= blocks_.size()) {
      tell(fmt::format("{} goes to block {}, which is not there", where, index));
      return false;
    }
    if (blocks_[index].is_placed) {
      tell(fmt::format("{} goes to block {}, which has another place", where, index));
      return false;
    }
    if (blocks_[index].kind != kind) {
      tell(fmt::format("{} goes to block {}, which is of another kind", where, index));
      return false;
    }
    blocks_[index].is_placed = true;
    return true;
  }
  void take_free_list() {
    for (std::uint32_t at = first_free_;
         at != 0 && place(at, BlockKind::kFree, "the list of free blocks"); at = blocks_[at].next)
      ++free_count_;
  }

  void check_chain(const Head &head) {
    const std::string name = fmt::format("the chain of block {}", head.index);
    std::vector<std::uint32_t> chain;
    BlockKind kind = head.is_kept ? BlockKind::kKept : BlockKind::kHead;
    for (std::uint32_t at = head.index; at != 0 && place(at, kind, name.c_str());
         at = blocks_[at].next) {
      chain.push_back(at);
      kind = BlockKind::kMore;
    }
    if (head.last == Place::kNone) {
      if (head.is_kept) tell(name + " is kept, and empty");
      return;
    }
    if (!head.is_kept) waiting_.push_back(head.transaction);
    if (const std::string why = check_records(head, chain); !why.empty())
      tell(fmt::format("{}: {}", name, why));
    if (std::max(head.last_lsn, head.is_kept ? head.committed_lsn : 0) > numbers_)
      tell(name + " has numbers that nobody has drawn");
    if (head.is_kept && head.committed_lsn <= head.last_lsn)
      tell(name + " was committed before its last record");
  }

  struct Record {
    std::size_t block;  // of its chain
    std::size_t at, end;
    std::uint64_t lsn;
    std::uint32_t type;
    Place before;
  };
  // Its block's number in the chain, from `to` on downwards; as many as there are: it is none of
  // them.
  static std::size_t find_block(const std::vector<std::uint32_t> &chain, Place place,
                                std::size_t to) {
    if ((static_cast<std::uint64_t>(place) >> 12) > 0xffff'ffffu) return chain.size();
    const auto wanted = static_cast<std::uint32_t>(tp::block_of(place));
    for (std::size_t i = std::min(to + 1, chain.size()); i-- > 0;)
      if (chain[i] == wanted) return i;
    return chain.size();
  }
  // Empty: the place is that of a record.
  std::string read_record(const std::vector<std::uint32_t> &chain, Place place, std::size_t to,
                          Record *out) {
    TMH_ASSERT(out != nullptr);
    out->block = find_block(chain, place, to);
    out->at = tp::offset_of(place);
    const std::string name =
        fmt::format("block {}, byte {}", static_cast<std::uint32_t>(tp::block_of(place)), out->at);
    if (out->block == chain.size()) return name + " is not in it, or goes forth in it";
    if (out->at < tp::kRecordsAt || out->at % 8 != 0 ||
        out->at + sizeof(RecordHead) > tp::kBlockBytes)
      return name + " is no record's place";
    if (cached_ != chain[out->block]) {
      bytes_ = read(chain[out->block], 1);
      cached_ = chain[out->block];
    }
    if (bytes_.size() < tp::kBlockBytes) return name + " is behind the file's end";
    const std::byte *const head = bytes_.data() + out->at;
    const std::uint64_t bytes = field<std::uint32_t>(head, offsetof(RecordHead, bytes));
    out->end = out->at + sizeof(RecordHead) + (bytes + 7) / 8 * 8;
    out->lsn = field<std::uint64_t>(head, offsetof(RecordHead, lsn));
    out->type = field<std::uint32_t>(head, offsetof(RecordHead, type));
    out->before = field<Place>(head, offsetof(RecordHead, before));
    if (out->end > tp::kBlockBytes) return name + " is longer than its block";
    if ((out->type & tp::kTypeBits) == 0) return name + " is of no type";
    return {};
  }
  // Empty: they are whole. Records lie one behind the other, so that places fall.
  std::string check_records(const Head &head, const std::vector<std::uint32_t> &chain) {
    std::optional<Record> later;
    for (Place place = head.last; place != Place::kNone;) {
      Record record{};
      if (std::string why = read_record(chain, place, later ? later->block : chain.size(), &record);
          !why.empty())
        return why;
      const bool goes_on = (record.type & tp::kGoesOn) != 0;
      if (!later.has_value()) {
        if (goes_on || record.lsn > head.last_lsn) return "its last record is another one";
      } else {
        const bool is_just_before =
            record.block == later->block
                ? record.end == later->at
                : record.block + 1 == later->block && later->at == tp::kRecordsAt;
        if (!is_just_before) return "its records do not lie one behind the other";
        const bool is_same =
            record.lsn == later->lsn && (record.type | tp::kGoesOn) == (later->type | tp::kGoesOn);
        if (goes_on ? !is_same : record.lsn >= later->lsn) return "its LSNs do not fall";
      }
      if (record.lsn <= head.transaction) return "its LSNs are of an earlier transaction";
      if (record.before == Place::kNone && (record.block != 0 || record.at != tp::kRecordsAt))
        return "its first record does not lie where chains begin";
      place = record.before;
      later = record;
    }
    return {};
  }

  void check_kept_list() {
    std::uint32_t last = 0;
    std::vector<bool> is_seen(blocks_.size(), false);
    for (std::uint32_t at = first_kept_; at != 0;) {
      const auto head = at < blocks_.size() && !is_seen[at] ? find_head(at) : heads_.end();
      if (head == heads_.end() || !head->is_kept)
        return tell(fmt::format("the list of kept chains goes to block {}", at));
      is_seen[at] = true;
      ++kept_count_;
      last = at;
      at = head->next_kept;
    }
    if (last != last_kept_)
      return tell(
          fmt::format("the list of kept chains ends at block {}, not {}", last, last_kept_));
    const auto all =
        std::count_if(heads_.begin(), heads_.end(), [](const Head &head) { return head.is_kept; });
    if (kept_count_ != static_cast<std::uint64_t>(all))
      tell(fmt::format("{} of {} are in their list", kept_count_,
                       counted(static_cast<std::uint64_t>(all), "kept chain")));
  }
  [[nodiscard]] std::vector<Head>::const_iterator find_head(std::uint32_t index) const {
    const auto found = std::lower_bound(
        heads_.begin(), heads_.end(), index,
        [](const Head &head, std::uint32_t wanted) { return head.index < wanted; });
    return found != heads_.end() && found->index == index ? found : heads_.end();
  }

  const platform::FileDescriptor &file_;
  const std::string &path_;
  const std::uint64_t begin_;
  std::uint32_t first_free_ = 0, first_kept_ = 0, last_kept_ = 0;
  std::uint64_t numbers_ = 0, free_count_ = 0, kept_count_ = 0, problem_count_ = 0;
  std::vector<Block> blocks_;
  std::vector<Head> heads_;             // by index
  std::vector<std::uint64_t> waiting_;  // transactions that have changed something
  std::vector<std::byte> bytes_;        // of block cached_
  std::uint32_t cached_ = 0;
  std::string first_problem_;
};

}  // namespace

bool holds_chains(const SegmentRecordV1 &segment) {
  return segment.layout != 1 && std::strcmp(segment.name, tp::kChainFile) == 0;
}

Part check_chains(const std::string &folder, const SegmentRecordV1 &segment) {
  TMH_ASSERT(storage::is_used(segment) && holds_chains(segment));
  Part part{{}, PartState::kDamaged, {}};
  const std::string path = segment_path(folder, segment);
  platform::FileDescriptor file;
  const Errc error = platform::open_regular(path, O_RDONLY, platform::FileRole::kSegment, &file);
  if (error != Errc::kOk) {
    if (error != Errc::kNotADomain && errno != ENOENT) part.state = PartState::kUnreadable;
    part.message = platform::failure_detail();
    return part;
  }
  try {
    const ChainCheck chains(file, path, segment);
    if (chains.is_whole()) part.state = PartState::kSound;
    part.message = chains.message();
  } catch (const Error &failed) {
    part.state = PartState::kUnreadable;
    part.message = text_of(failed);
  }
  return part;
}

}  // namespace tmh::tools
