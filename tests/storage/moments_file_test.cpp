// tests/storage/moments_file_test.cpp -- tmh.moments: what was written is read, and nothing else.
// Invariants: (1) every byte that differs and every cut is an error whose detail names the file.
//             (2) another domain's file is refused. (3) no names: no file.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "platform/failure.h"
#include "storage/crc32c.h"
#include "storage/moments_file.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using storage::KeptMoments;

constexpr std::uint64_t kDomain[2] = {0x1234, 0x5678};

class MomentsFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return storage::moments_path(folder_.path()); }
  [[nodiscard]] Errc write(const KeptMoments &moments) const {
    return storage::write_moments(folder_.path(), kDomain, moments);
  }
  [[nodiscard]] Errc read(KeptMoments *moments) const {
    return storage::read_moments(folder_.path(), kDomain, moments);
  }
  [[nodiscard]] Errc read_bytes(const std::string &bytes) const {
    write_file(path(), bytes);
    KeptMoments moments;
    return read(&moments);
  }
  // As a writer seals them.
  static std::string sealed(storage::MomentsFileV1 file) {
    file.crc = storage::crc32c(0, &file, offsetof(storage::MomentsFileV1, crc));
    return {reinterpret_cast<const char *>(&file), sizeof file};
  }
  [[nodiscard]] storage::MomentsFileV1 right() const {
    EXPECT_EQ(write({{"one", 7, 99, 4096}, {"two", 8, 100, 8192}}), Errc::kOk);
    storage::MomentsFileV1 file;
    std::memcpy(&file, read_file(path()).data(), sizeof file);
    return file;
  }
  TempFolder folder_;
};

TEST_F(MomentsFileTest, WhatWasWrittenIsRead) {
  KeptMoments moments{{"gone", 1, 1, 1}};
  EXPECT_EQ(read(&moments), Errc::kOk);
  EXPECT_TRUE(moments.empty()) << "there is no file";
  KeptMoments all;
  for (std::size_t i = 0; i < kMomentsMax; ++i)
    all.push_back({std::string(1 + i % kMomentNameMax, static_cast<char>('A' + i / 47)) +
                       (i % kMomentNameMax + 1 == kMomentNameMax ? "" : "z"),
                   i + 1, i + 2, i + 3});
  ASSERT_EQ(write(all), Errc::kOk);
  ASSERT_EQ(read(&moments), Errc::kOk);
  ASSERT_EQ(moments.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(moments[i].name, all[i].name);
    EXPECT_EQ(moments[i].clock, all[i].clock);
    EXPECT_EQ(moments[i].lsn, all[i].lsn);
    EXPECT_EQ(moments[i].time_ns, all[i].time_ns);
  }
  ASSERT_NE(storage::find_moment(moments, all[5].name), nullptr);
  EXPECT_EQ(storage::find_moment(moments, all[5].name)->clock, 6U);
  EXPECT_EQ(storage::find_moment(moments, "never"), nullptr);
  ASSERT_EQ(write({}), Errc::kOk);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(MomentsFileTest, EachDamagedByteIsFound) {
  (void)right();
  const std::string bytes = read_file(path());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ (1 + at % 255));
    const Errc error = read_bytes(damaged);
    ASSERT_EQ(error, Errc::kCorrupt) << at;
    ASSERT_NE(platform::failure_detail().find(path()), std::string::npos);
  }
}

TEST_F(MomentsFileTest, EachCutIsFound) {
  (void)right();
  const std::string bytes = read_file(path());
  for (std::size_t length = 0; length < bytes.size(); length += 7)
    ASSERT_EQ(read_bytes(bytes.substr(0, length)), Errc::kShortFile) << length;
  EXPECT_EQ(read_bytes(bytes + "x"), Errc::kCorrupt);
  EXPECT_EQ(read_bytes(bytes), Errc::kOk);
}

TEST_F(MomentsFileTest, WholeFilesThatSayWhatNoneMayAreRefused) {
  const storage::MomentsFileV1 file = right();
  const auto code_with = [&](auto change) {
    storage::MomentsFileV1 changed = file;
    change(changed);
    return read_bytes(sealed(changed));
  };
  using File = storage::MomentsFileV1;
  EXPECT_EQ(code_with([](File &each) { each.magic += 1; }), Errc::kNotADomain);
  EXPECT_EQ(code_with([](File &each) { each.format_version = 2; }), Errc::kForeignVersion);
  EXPECT_EQ(code_with([](File &each) { each.domain_id[1] += 1; }), Errc::kNotADomain);
  EXPECT_EQ(code_with([](File &each) { each.count = 0; }), Errc::kCorrupt);
  EXPECT_EQ(code_with([](File &each) { each.count = 1; }), Errc::kCorrupt) << "hides one";
  EXPECT_EQ(code_with([](File &each) { each.count = kMomentsMax + 1; }), Errc::kCorrupt);
  EXPECT_EQ(code_with([](File &each) { each.moments[1].name[0] = '\0'; }), Errc::kCorrupt);
  EXPECT_EQ(code_with([](File &each) { each.moments[1].clock = 0; }), Errc::kCorrupt);
  EXPECT_EQ(code_with([](File &each) { each.moments[1].name[40] = 'x'; }), Errc::kCorrupt);
  EXPECT_EQ(code_with([](File &each) { std::memset(each.moments[1].name, 'x', 48); }),
            Errc::kCorrupt)
      << "no end";
  EXPECT_EQ(code_with([](File &each) { std::memcpy(each.moments[1].name, "one", 4); }),
            Errc::kCorrupt)
      << "twice";
  EXPECT_EQ(code_with([](File &each) { each.reserved_zero = 1; }), Errc::kCorrupt);
  EXPECT_EQ(code_with([](File &) {}), Errc::kOk);
}

TEST_F(MomentsFileTest, ALinkIsNotFollowed) {
  (void)right();
  std::filesystem::rename(path(), folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", path());
  KeptMoments moments;
  EXPECT_EQ(read(&moments), Errc::kForeignFile);
}

}  // namespace
}  // namespace tmh::test
