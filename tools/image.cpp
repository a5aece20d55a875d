// tools/image.cpp -- tmh image: a backup as it was at a moment, told or written to a new folder.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include <tmh/image.hpp>
#include <tmh/options.hpp>

#include "platform/assert.h"
#include "platform/disk.h"
#include "tools/commands.h"
#include "tools/domain_files.h"
#include "tools/failure.h"
#include "tools/moment.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

namespace fs = std::filesystem;

// None is asked for: the log's end.
Moment moment_of(const ImageCommand &command) {
  TMH_ASSERT(command.lsn.has_value() + command.clock.has_value() + !command.name.empty() +
                 !command.time.empty() <=
             1);
  if (command.lsn) return Moment::lsn(*command.lsn);
  if (command.clock) return Moment::clock(*command.clock);
  if (!command.name.empty()) return Moment::named(command.name);
  const auto now = std::chrono::system_clock::now();
  if (command.time.empty()) return Moment::time(now);
  const auto ns = parse_moment(command.time);
  if (!ns) refuse(Errc::kBadArgument, fmt::format("'{}' is no time", command.time));
  return Moment::time(std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(*ns))));
}

bool is_zero(const std::byte *page) {
  TMH_ASSERT(page != nullptr);
  return std::all_of(page, page + kPageBytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// Pages of zeros become holes.
void write_segment(const ImageSegment &segment, const std::string &path) {
  TMH_ASSERT(segment.size_bytes % kPageBytes == 0 &&
             (segment.data != nullptr || segment.size_bytes == 0));
  using platform::DiskFile;
  DiskFile file;
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  const bool is_there = fs::exists(path);
  check(file.open(path, is_there ? DiskFile::Mode::kReadWrite : DiskFile::Mode::kCreate));
  std::uint64_t bytes = 0;
  check(file.size(&bytes));
  check(file.truncate(std::max(bytes, segment.offset_bytes + segment.size_bytes)));
  for (std::uint64_t at = 0; at < segment.size_bytes; at += kPageBytes)
    if (!is_zero(segment.data + at))
      check(file.write(segment.offset_bytes + at, segment.data + at, kPageBytes));
  check(file.sync());
  check(platform::sync_folder(fs::path(path).parent_path()));
}

bool lies_inside(const fs::path &path) {
  return path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

// Under another name until it is whole, as a backup.
void write_to(const ImageInfo &info, std::string to) {
  TMH_ASSERT(!to.empty());
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  const std::string unnamed = to + ".incomplete";
  std::error_code ignored;
  for (const std::string &folder : {to, unnamed})
    if (fs::exists(fs::symlink_status(folder, ignored)))
      refuse(Errc::kBadArgument, folder + " exists");
  for (const ImageSegment &segment : info.segments)
    if (!lies_inside(segment.file))
      refuse(Errc::kBadArgument,
             segment.file + ": a segment outside the folder cannot be written into one");
  if (!fs::create_directory(unnamed, ignored))
    refuse(Errc::kIo, unnamed + ": " + ignored.message());
  try {
    for (const ImageSegment &segment : info.segments)
      write_segment(segment, unnamed + "/" + segment.file);
    check(platform::rename_new(unnamed, to));
    check(platform::sync_folder(to + "/.."));
  } catch (...) {
    fs::remove_all(unnamed, ignored);
    throw;
  }
}

Json document_of(const ImageCommand &command, const ImageInfo &info) {
  Json segments = Json::array();
  for (const ImageSegment &segment : info.segments)
    segments.push_back({{"name", segment.file},
                        {"offset_bytes", segment.offset_bytes},
                        {"size_bytes", segment.size_bytes},
                        {"changed_pages", segment.changed_pages}});
  Json document{{"domain", command.domain},    {"lsn", info.lsn},
                {"clock", info.clock},         {"time_ns", info.time_ns},
                {"is_end", info.is_end},       {"transactions", info.transactions},
                {"log_bytes", info.log_bytes}, {"segments", std::move(segments)}};
  if (!command.to.empty()) document["to"] = command.to;
  return document;
}

std::string text_of_image(const ImageCommand &command, const ImageInfo &info) {
  std::string text =
      fmt::format("{}: LSN {}, commit {}{}{}\n", command.domain, info.lsn, info.clock,
                  info.time_ns == 0 ? ", of the backup" : " of " + moment_text(info.time_ns),
                  info.is_end ? ", the log's end" : "");
  text += fmt::format("{} of the log on it ({})\n", counted(info.transactions, "transaction"),
                      bytes_text(info.log_bytes));
  for (const ImageSegment &segment : info.segments)
    text += fmt::format("{}: {}, {} changed\n", printable(segment.file),
                        bytes_text(segment.size_bytes), counted(segment.changed_pages, "page"));
  if (!command.to.empty())
    text += fmt::format("{} written to {}\n", counted(info.segments.size(), "segment"), command.to);
  return text;
}

}  // namespace

Exit run(const ImageCommand &command) {
  expect_domain(command.domain);
  const Image image = open_image(command.domain, moment_of(command), {command.logs, true});
  if (!command.to.empty()) write_to(image.info(), command.to);
  if (command.json)
    print(document_of(command, image.info()));
  else
    print(text_of_image(command, image.info()));
  return Exit::kOk;
}

}  // namespace tmh::tools
