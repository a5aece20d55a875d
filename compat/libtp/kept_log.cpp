// compat/libtp/kept_log.cpp -- walking the kept chains.
#include "compat/libtp/kept_log.h"

#include <algorithm>
#include <string>
#include <vector>

#include "platform/assert.h"
#include "platform/failure.h"

namespace tmh::tp {

template <class Visitor>
void KeptLog::for_each_chain(const Visitor &visit) const {
  const ChainFile &file = managers_.chains();
  std::uint32_t left = file.header().blocks;
  for (BlockIndex head = file.header().first_kept; head != BlockIndex::kNone;
       head = file.block(head).next_kept) {
    if (left-- == 0) throw Error(Errc::kCorrupt, "tp.chains: kept chains go round");
    if (!visit(head)) return;
  }
}

std::optional<Record> KeptLog::find(std::uint64_t lsn, std::uint64_t *transaction) const {
  TMH_ASSERT(transaction != nullptr);
  const ChainFile &file = managers_.chains();
  return file.run([&](Fields) {
    std::optional<Record> found;
    for_each_chain([&](BlockIndex head) {
      const BlockHead &block = file.block(head);
      if (lsn > block.last_lsn || lsn <= block.transaction) return true;
      const Chain chain(file, head);
      for (Place at = block.last; at != Place::kNone && !found.has_value();) {
        Record record = chain.read(at);
        at = record.before;
        if (record.lsn < lsn) break;
        if (record.lsn != lsn) continue;
        *transaction = block.transaction;
        found = std::move(record);
      }
      return !found.has_value();
    });
    return found;
  });
}

int KeptLog::roll(std::uint64_t from, const Visit &visit) const {
  struct Found {
    std::uint64_t lsn, transaction;
    Place at;
    BlockIndex head;
  };
  const ChainFile &file = managers_.chains();
  std::vector<Found> all = file.run([&](Fields) {
    std::vector<Found> found;
    for_each_chain([&](BlockIndex head) {
      const BlockHead &block = file.block(head);
      const Chain chain(file, head);
      for (Place at = block.last; at != Place::kNone;) {
        const Record record = chain.read(at);
        if (record.lsn < from) break;
        if (record.type < kOwnTypes || record.type == kBytesBefore)
          found.push_back({record.lsn, block.transaction, at, head});
        at = record.before;
      }
      return true;
    });
    return found;
  });
  std::sort(all.begin(), all.end(),
            [](const Found &one, const Found &other) { return one.lsn < other.lsn; });
  for (const Found &found : all) {
    // The log may have been cut since.
    const std::optional<Record> record = file.run([&](Fields) -> std::optional<Record> {
      const BlockHead &block = file.block(found.head);
      if (block.kind != BlockKind::kKept || block.transaction != found.transaction)
        return std::nullopt;
      return Chain(file, found.head).read(found.at);
    });
    if (!record.has_value() || record->lsn != found.lsn) continue;
    if (const int why = visit(found.transaction, *record); why != 0) return why;
  }
  return 0;
}

void KeptLog::forget(std::uint64_t before) const {
  const ChainFile &file = managers_.chains();
  for (bool goes_on = true; goes_on;)
    goes_on = file.run([&](Fields) {
      ChainHeader &header = file.header();
      const BlockIndex head = header.first_kept;
      if (head == BlockIndex::kNone) return false;
      const BlockHead &block = file.block(head);
      if (block.kind != BlockKind::kKept)
        throw Error(Errc::kCorrupt, "tp.chains: a block is in the kept log, and is no head of it");
      if (block.committed_lsn >= before) return false;
      header.first_kept = block.next_kept;
      if (header.last_kept == head) header.last_kept = BlockIndex::kNone;
      file.give_all(head);
      return true;
    });
}

Errc KeptLog::redo() const {
  const int why = roll(0, [&](std::uint64_t transaction, const Record &record) {
    if (!record.is_elsewhere) return 0;
    const std::optional<Undo> known = managers_.types().find(record.type);
    if (!known.has_value() || known->redo == nullptr) {
      platform::fail(Errc::kBadArgument, "record type " + std::to_string(record.type) +
                                             " lies outside of segments, and has no redo here");
      return static_cast<int>(Errc::kBadArgument);
    }
    const tp_record told{record.type, record.lsn, transaction, record.data.data(),
                         record.data.size()};
    const int refused = known->redo(&told, known->context);
    if (refused != 0)
      platform::fail(static_cast<Errc>(refused),
                     "the redo of record " + std::to_string(record.lsn) + " refuses");
    return refused;
  });
  return static_cast<Errc>(why);
}

}  // namespace tmh::tp
