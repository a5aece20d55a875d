// storage/moments_file.cpp -- reading and replacing tmh.moments.
#include "storage/moments_file.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/try.h"
#include "storage/crc32c.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;

namespace {

std::uint32_t crc_of(const MomentsFileV1 &file) noexcept {
  return crc32c(0, &file, offsetof(MomentsFileV1, crc));
}

bool is_zero(const void *from, std::size_t bytes) noexcept {
  const auto *const begin = static_cast<const unsigned char *>(from);
  return std::all_of(begin, begin + bytes, [](unsigned char byte) { return byte == 0; });
}

bool is_right(const MomentV1 &moment) noexcept {
  const std::size_t length = strnlen(moment.name, sizeof moment.name);
  return moment.clock != 0 && length != 0 && length <= kMomentNameMax &&
         is_zero(moment.name + length, sizeof moment.name - length);
}

// The first thing that is wrong; null: nothing.
const char *wrong_field(const MomentsFileV1 &file) noexcept {
  if (file.count == 0 || file.count > kMomentsMax) return "count";
  if (file.reserved_zero != 0) return "reserved bytes";
  const MomentV1 *const end = file.moments + file.count;
  for (const MomentV1 *moment = file.moments; moment != end; ++moment) {
    if (!is_right(*moment)) return "a moment";
    const bool stands_before = std::any_of(file.moments, moment, [&](const MomentV1 &before) {
      return std::strcmp(before.name, moment->name) == 0;
    });
    if (stands_before) return "a name that stands there twice";
  }
  return is_zero(end, (kMomentsMax - file.count) * sizeof(MomentV1)) ? nullptr : "unused moments";
}

Errc verify(const MomentsFileV1 &file, const std::uint64_t (&domain_id)[2], std::string *why) {
  const auto refuse = [&](Errc code, const char *text) {
    *why = text;
    return code;
  };
  const bool is_whole = file.crc == crc_of(file);
  if (file.magic != kMomentsMagic)
    return refuse(is_whole ? Errc::kNotADomain : Errc::kCorrupt, "magic number");
  if (!is_whole) return refuse(Errc::kCorrupt, "checksum");
  if (file.format_version != kMomentsVersion) return refuse(Errc::kForeignVersion, "version");
  if (file.domain_id[0] != domain_id[0] || file.domain_id[1] != domain_id[1])
    return refuse(Errc::kNotADomain, "of another domain");
  const char *const field = wrong_field(file);
  return field == nullptr ? Errc::kOk : refuse(Errc::kCorrupt, field);
}

}  // namespace

std::string moments_path(const std::string &folder) { return folder + "/tmh.moments"; }

const KeptMoment *find_moment(const KeptMoments &moments, std::string_view name) noexcept {
  const auto found = std::find_if(moments.begin(), moments.end(),
                                  [&](const KeptMoment &each) { return each.name == name; });
  return found == moments.end() ? nullptr : &*found;
}

Errc read_moments(const std::string &folder, const std::uint64_t (&domain_id)[2],
                  KeptMoments *moments) noexcept try {
  moments->clear();
  const std::string path = moments_path(folder);
  if (!platform::has_entry(path)) return Errc::kOk;
  const auto content = std::make_unique<MomentsFileV1>();
  DiskFile file;
  // Whoever forgets the last name removes the file, and readers take no lock.
  if (const Errc error = file.open(path, DiskFile::Mode::kRead); error != Errc::kOk)
    return platform::has_entry(path) ? error : Errc::kOk;
  std::uint64_t bytes = 0;
  TMH_TRY(file.size(&bytes));
  std::size_t got = 0;
  TMH_TRY(file.read(0, content.get(), sizeof *content, &got));
  const auto refuse = [&](Errc code, const std::string &why) {
    return fail(code, path + ": " + why + "; without that file the domain has no kept names");
  };
  if (got < sizeof *content) return refuse(Errc::kShortFile, "cut short");
  if (bytes != sizeof *content) return refuse(Errc::kCorrupt, "longer than it may be");
  std::string why;
  if (const Errc error = verify(*content, domain_id, &why); error != Errc::kOk)
    return refuse(error, why);
  for (const MomentV1 *each = content->moments; each != content->moments + content->count; ++each)
    moments->push_back({each->name, each->clock, each->time_ns, each->lsn});
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return fail(Errc::kOutOfMemory, "names of moments");
}

Errc write_moments(const std::string &folder, const std::uint64_t (&domain_id)[2],
                   const KeptMoments &moments) noexcept try {
  TMH_ASSERT(moments.size() <= kMomentsMax);
  const std::string path = moments_path(folder);
  if (moments.empty()) {
    TMH_TRY(platform::disk_unlink(path));
    return platform::sync_folder(folder);
  }
  const auto content = std::make_unique<MomentsFileV1>();
  content->magic = kMomentsMagic;
  content->format_version = kMomentsVersion;
  content->count = static_cast<std::uint32_t>(moments.size());
  std::copy(std::begin(domain_id), std::end(domain_id), std::begin(content->domain_id));
  for (std::size_t i = 0; i < moments.size(); ++i) {
    TMH_ASSERT(!moments[i].name.empty() && moments[i].name.size() <= kMomentNameMax);
    MomentV1 &to = content->moments[i];
    to.clock = moments[i].clock;
    to.lsn = moments[i].lsn;
    to.time_ns = moments[i].time_ns;
    moments[i].name.copy(to.name, kMomentNameMax);
  }
  content->crc = crc_of(*content);
  TMH_TRY(platform::replace_file(path, content.get(), sizeof *content));
  return platform::sync_folder(folder);
} catch (const std::bad_alloc &) {
  return fail(Errc::kOutOfMemory, "names of moments");
}

}  // namespace tmh::storage
