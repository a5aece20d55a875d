// tests/tools/perf_encoding_test.cpp -- codes of the RTM events on nine processors, without owning
// one.
// Invariants: (1) each code equals libpfm4's own, for each processor that libpfm4 knows. (2) those
//             that it does not know (emr, gnr) have the codes of the event lists that
//             observe/perf/processors.h names. (3) models are told apart as libpfm4 and Linux tell
//             them.
#include <gtest/gtest.h>

#include <linux/perf_event.h>
#include <perfmon/pfmlib.h>

#include <cerrno>
#include <cstdlib>
#include <set>
#include <string>

#include <tmh/error.hpp>

#include "observe/perf/encode.h"
#include "observe/perf/processors.h"
#include "observe/perf/refusal.h"

namespace tmh::perf {
namespace {

constexpr Processor kAll[] = {Processor::kHsw, Processor::kBdw, Processor::kSkl,
                              Processor::kClx, Processor::kIcl, Processor::kIcx,
                              Processor::kSpr, Processor::kEmr, Processor::kGnr};

// libpfm4 keeps tables of all processors; this makes it answer for those that are not here.
class LibpfmTables : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);
    ASSERT_EQ(::pfm_initialize(), PFM_SUCCESS);
  }

  // Without the bits that perf_event_open sets itself: user, kernel, interrupt, enable.
  static std::uint64_t config_of(const std::string &name, int *error) {
    std::uint64_t *codes = nullptr;
    int count = 0;
    *error = ::pfm_get_event_encoding(name.c_str(), PFM_PLM3, nullptr, nullptr, &codes, &count);
    constexpr std::uint64_t kOfTheKernel = 1u << 16 | 1u << 17 | 1u << 20 | 1u << 22;
    const std::uint64_t code = count > 0 ? codes[0] & ~kOfTheKernel : 0;
    std::free(codes);
    return code;
  }
};

TEST_F(LibpfmTables, EveryCodeIsLibpfms) {
  int compared = 0;
  for (const Processor processor : kAll) {
    if (!info(processor).libpfm_knows) continue;
    for (const KnownEvent &event : known_events()) {
      const std::string name = std::string(info(processor).name) + "::" +
                               std::string(event.full_name[static_cast<std::size_t>(processor)]);
      int error = 0;
      const std::uint64_t code = config_of(name, &error);
      if (event.on(processor) == KnownEvent::kNone) {
        EXPECT_NE(error, PFM_SUCCESS) << name << " exists there";
        continue;
      }
      EXPECT_EQ(error, PFM_SUCCESS) << name << ": " << ::pfm_strerror(error);
      EXPECT_EQ(code, event.on(processor)) << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 7 * 14 - 4);  // tx-capacity-read: not before icl
}

TEST_F(LibpfmTables, EmeraldAndGraniteRapidsHaveSapphireRapidsCodes) {
  for (const Processor processor : {Processor::kEmr, Processor::kGnr}) {
    EXPECT_FALSE(info(processor).libpfm_knows);
    for (const KnownEvent &event : known_events()) {
      const std::string name =
          "spr::" + std::string(event.full_name[static_cast<std::size_t>(processor)]);
      int error = 0;
      EXPECT_EQ(config_of(name, &error), event.on(processor)) << name;
      EXPECT_EQ(error, PFM_SUCCESS) << name;
    }
  }
}

// libpfm4 4.13 has neither. When a later one has, compare with it as with the others.
TEST_F(LibpfmTables, ProcessorsSaidToBeUnknownToLibpfmAre) {
  for (const Processor processor : kAll) {
    int error = 0;
    (void)config_of(std::string(info(processor).name) + "::RTM_RETIRED:START", &error);
    EXPECT_EQ(error == PFM_SUCCESS, info(processor).libpfm_knows) << info(processor).name;
  }
}

TEST(Processors, AreToldByFamilyModelAndStepping) {
  const auto of = [](std::uint32_t model, std::uint32_t stepping = 1) {
    return processor_of("GenuineIntel", 6, model, stepping);
  };
  EXPECT_EQ(of(0x3c), Processor::kHsw);
  EXPECT_EQ(of(0x4f), Processor::kBdw);
  EXPECT_EQ(of(0x5e), Processor::kSkl);
  EXPECT_EQ(of(0x55, 4), Processor::kSkl);
  EXPECT_EQ(of(0x55, 7), Processor::kClx);
  EXPECT_EQ(of(0x7e), Processor::kIcl);
  EXPECT_EQ(of(0x6a), Processor::kIcx);
  EXPECT_EQ(of(0x8f), Processor::kSpr);
  EXPECT_EQ(of(0xcf), Processor::kEmr);
  EXPECT_EQ(of(0xad), Processor::kGnr);
  EXPECT_EQ(of(0x2a), Processor::kOther);  // Sandy Bridge: before RTM
  EXPECT_EQ(processor_of("AuthenticAMD", 6, 0x3c, 1), Processor::kOther);
  EXPECT_EQ(processor_of("GenuineIntel", 15, 0x3c, 1), Processor::kOther);
}

TEST(Encode, KnownEventsAreRawCodesOrSayWhyNot) {
  const Encoded walks = encode("load-walks", Processor::kGnr);
  EXPECT_EQ(walks.unknown, "");
  EXPECT_EQ(walks.type, static_cast<std::uint32_t>(PERF_TYPE_RAW));
  EXPECT_EQ(walks.config, 0x0e12u);
  EXPECT_NE(encode("tx-capacity-read", Processor::kHsw).unknown.find("hsw"), std::string::npos);
  EXPECT_NE(encode("rtm-start", Processor::kOther).unknown, "");
}

TEST(Encode, GenericEventsAreTheKernelsEverywhere) {
  for (const Processor processor : {Processor::kHsw, Processor::kOther}) {
    const Encoded faults = encode("page-faults", processor);
    EXPECT_EQ(faults.unknown, "");
    EXPECT_EQ(faults.type, static_cast<std::uint32_t>(PERF_TYPE_SOFTWARE));
    EXPECT_EQ(faults.config, static_cast<std::uint64_t>(PERF_COUNT_SW_PAGE_FAULTS));
    EXPECT_EQ(encode("cycles", processor).type, static_cast<std::uint32_t>(PERF_TYPE_HARDWARE));
    EXPECT_EQ(encode("dtlb-load-misses", processor).type,
              static_cast<std::uint32_t>(PERF_TYPE_HW_CACHE));
  }
  EXPECT_NE(encode("no-such-event", Processor::kOther).unknown.find("libpfm4"), std::string::npos);
  EXPECT_TRUE(encode("perf::PAGE-FAULTS:u", Processor::kOther).user_only);
}

TEST(Groups, SetsStandAloneAndListsAreGroups) {
  using Groups = std::vector<std::vector<std::string>>;
  EXPECT_EQ(groups_of({"cycles,instructions", "page-faults"}),
            (Groups{{"cycles", "instructions"}, {"page-faults"}}));
  EXPECT_EQ(groups_of({"rtm"}).size(), 4u);
  std::set<std::string> names;
  for (const auto &group : groups_of({}))
    for (const std::string &name : group)
      EXPECT_TRUE(names.insert(name).second) << name << " is in two sets";
  for (const KnownEvent &event : known_events())
    EXPECT_TRUE(names.contains(std::string(event.name))) << event.name;
  for (const char *wrong : {"", ",", "cycles,", "cycles,rtm"})
    EXPECT_THROW((void)groups_of({wrong}), Error) << wrong;
}

Refusal refused(int error) {
  Refusal refusal;
  refusal.error = error;
  refusal.paranoid = 2;
  return refusal;
}

TEST(Refusals, AreExplainedByTheirCause) {
  Refusal hardware = refused(ENOENT);
  hardware.is_hardware = hardware.is_virtual = true;
  EXPECT_NE(explain(hardware).find("hypervisor"), std::string::npos);
  hardware.is_virtual = false;
  EXPECT_NE(explain(hardware).find("no PMU: the kernel"), std::string::npos);
  hardware.has_pmu = true;
  EXPECT_NE(explain(hardware).find("cannot count it"), std::string::npos);
  Refusal kernel = refused(EACCES);
  kernel.needs_kernel = true;
  EXPECT_NE(explain(kernel).find("perf_event_paranoid is 2"), std::string::npos);
  EXPECT_NE(explain(kernel).find("1 or less"), std::string::npos);
  kernel.needs_kernel = false;
  EXPECT_NE(explain(kernel).find("seccomp"), std::string::npos);
  kernel.paranoid = 3;
  EXPECT_NE(explain(kernel).find("2 or less"), std::string::npos);
  EXPECT_NE(explain(refused(EMFILE)).find("ulimit"), std::string::npos);
  EXPECT_NE(explain(refused(EBUSY)).find("busy"), std::string::npos);
}

}  // namespace
}  // namespace tmh::perf
