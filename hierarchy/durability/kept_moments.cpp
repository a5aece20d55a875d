// hierarchy/durability/kept_moments.cpp -- naming the present durably; names after a recovery.
#include "hierarchy/durability/kept_moments.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "levels/page/versions/versions.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/try.h"

namespace tmh::detail {

using observe::Step;
using observe::step;
using platform::fail;
using storage::KeptMoment;

namespace {

Errc fail_for_name(Errc error, std::string_view name) {
  switch (error) {
    case Errc::kBadArgument:
      return fail(error, "a moment is called '" + std::string(name) + "' already");
    case Errc::kTooManyMoments:
      return fail(error, std::to_string(kMomentsMax) + " moments have names; forget() one");
    case Errc::kNotHeld:
      return fail(error, "no moment is called '" + std::string(name) + "'");
    default:
      return error;
  }
}

std::chrono::system_clock::time_point wall_time(std::uint64_t ns) noexcept {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(ns)));
}

}  // namespace

Errc KeptMoments::read(storage::KeptMoments *moments) const noexcept {
  return storage::read_moments(memory_.folder(), memory_.control().header.domain_id, moments);
}

Errc KeptMoments::write(const storage::KeptMoments &moments) const noexcept {
  return storage::write_moments(memory_.folder(), memory_.control().header.domain_id, moments);
}

Errc KeptMoments::keep_here(std::string_view name, page::PastName *made) {
  return fail_for_name(engine_.ours().tree.past().keep(engine_.lock_domain(), name, made), name);
}

Errc KeptMoments::keep(std::string_view name, std::uint64_t *clock) noexcept try {
  TMH_ASSERT(clock != nullptr);
  page::PastName made{};
  if (log_ == nullptr) {
    const Errc error = keep_here(name, &made);
    *clock = made.clock;
    return error;
  }
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(storage::lock_path(memory_.folder())));
  storage::KeptMoments moments;
  TMH_TRY(read(&moments));
  if (storage::find_moment(moments, name) != nullptr)
    return fail_for_name(Errc::kBadArgument, name);
  if (moments.size() >= kMomentsMax) return fail_for_name(Errc::kTooManyMoments, name);
  TMH_ASSERT(!name.empty());
  // All memory that this takes, before others see the name.
  moments.push_back({std::string(name), 0, 0, 0});
  TMH_TRY(keep_here(name, &made));
  step(Step::kMomentNamed);
  Errc error = log_->flush_all();
  if (error == Errc::kOk) {
    KeptMoment &kept = moments.back();
    kept.clock = made.clock;
    kept.time_ns = made.wall_ns;
    kept.lsn = memory_.log_state()->durable_lsn.load(std::memory_order_acquire);
    error = write(moments);
  }
  if (error != Errc::kOk) {
    const std::string why = platform::failure_detail();
    (void)engine_.ours().tree.past().forget(engine_.lock_domain(), name);
    return fail(error, why);
  }
  step(Step::kMomentStored);
  *clock = made.clock;
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("names of moments");
}

Errc KeptMoments::forget(std::string_view name) noexcept try {
  platform::FolderLock folder_lock;
  bool was_stored = false;
  if (log_ != nullptr) {
    TMH_TRY(folder_lock.acquire(storage::lock_path(memory_.folder())));
    storage::KeptMoments moments;
    TMH_TRY(read(&moments));
    was_stored =
        std::erase_if(moments, [&](const KeptMoment &each) { return each.name == name; }) != 0;
    if (was_stored) {
      TMH_TRY(write(moments));
      step(Step::kMomentErased);
    }
  }
  const Errc error = engine_.ours().tree.past().forget(engine_.lock_domain(), name);
  return was_stored ? Errc::kOk : fail_for_name(error, name);
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("names of moments");
}

Errc KeptMoments::complete(PastInfo *info) {
  TMH_ASSERT(info != nullptr);
  if (log_ == nullptr) return Errc::kOk;
  storage::KeptMoments moments;
  TMH_TRY(read(&moments));
  for (const KeptMoment &each : moments) {
    const auto here =
        std::find_if(info->moments.begin(), info->moments.end(),
                     [&](const NamedMoment &moment) { return moment.name == each.name; });
    if (here == info->moments.end())
      info->moments.push_back({each.name, each.clock, wall_time(each.time_ns), each.lsn, false});
    else if (here->clock == each.clock)
      here->lsn = each.lsn;
  }
  return Errc::kOk;
}

Errc settle_moments(page::SharedFiles &memory, const std::string &archive_folder,
                    std::uint64_t last_stamp, storage::Lsn end) noexcept try {
  const auto &id = memory.control().header.domain_id;
  const auto is_for_all = [](Errc error) {
    return error == Errc::kIo || error == Errc::kPermission || error == Errc::kOutOfMemory;
  };
  storage::KeptMoments moments, archived;
  // A damaged file stays as it is.
  if (const Errc error = storage::read_moments(memory.folder(), id, &moments); error != Errc::kOk)
    return is_for_all(error) ? error : Errc::kOk;
  if (!archive_folder.empty()) {
    const Errc error = storage::read_moments(archive_folder, id, &archived);
    if (is_for_all(error)) return error;
    if (error != Errc::kOk) archived.clear();
  }
  // What the log does not hold was undone: a name is written when the log holds its moment.
  const auto is_undone = [&](const KeptMoment &each) {
    return each.clock > last_stamp && each.lsn > end;
  };
  bool has_changed = std::erase_if(moments, is_undone) != 0;
  for (KeptMoment &each : archived) {
    const KeptMoment *const known = storage::find_moment(moments, each.name);
    if (is_undone(each) || (known != nullptr && known->lsn >= each.lsn)) continue;
    if (known != nullptr)
      std::erase_if(moments, [&](const KeptMoment &one) { return one.name == each.name; });
    if (moments.size() >= kMomentsMax) continue;
    moments.push_back(std::move(each));
    has_changed = true;
  }
  return has_changed ? storage::write_moments(memory.folder(), id, moments) : Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("names of moments");
}

Errc copy_moments(page::SharedFiles &memory, const std::string &to) noexcept {
  const auto &id = memory.control().header.domain_id;
  storage::KeptMoments moments;
  TMH_TRY(storage::read_moments(memory.folder(), id, &moments));
  // An archive may have names of before the last one here was forgotten.
  if (moments.empty() && !platform::has_entry(storage::moments_path(to))) return Errc::kOk;
  return storage::write_moments(to, id, moments);
}

}  // namespace tmh::detail
