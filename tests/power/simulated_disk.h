// tests/power/simulated_disk.h -- what a folder can look like after a power cut, at any moment of a
// recorded run.
// Shape:     entries of a journal are applied in order; between any two of them an image of the
//            folder can be written elsewhere. Which of the possible images follows from a seed
//            alone.
// Model:     content is kept by sectors of 512 bytes. A sector holds what is durable, or that and
//            any number of the later writes to it, in their order; sectors are independent. Durable
//            is what was recorded before a sync began that is done, and a durable write that is
//            done. A file's length is one more such sector. Names: creating, removing and renaming
//            are durable once a sync of their folder is done; until then each may have happened or
//            not, a rename as a whole.
//            Stores in mapped data files are writes that the kernel may do at any time: the same
//            rule.
//            This is weaker than ext4 (which orders lengths after data and names among each other):
//            what holds here holds there.
// Invariant: the same entries and seed give the same image.
// Sharing:   refers to the journal's memory: the journal must live longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/power/journal.h"

namespace tmh::test::power {

inline constexpr std::uint64_t kSectorBytes = 512;

// Files that are rebuilt after a reboot are not in an image: the engine knows them by the boot's
// id.
[[nodiscard]] bool survives_reboot(std::string_view name) noexcept;

class SimulatedDisk {
 public:
  // `folder`: as in the recorded paths, links resolved. What lies there already and is durable is
  // read by load().
  explicit SimulatedDisk(std::string folder) : folder_(std::move(folder)) {}
  void load();

  void apply(const Entry &entry);
  // Writes what a cut at this point may have left into the empty folder `to`.
  void build_image(const std::string &to, std::uint64_t seed) const;

  // Operations on files whose creation was not recorded: the engine wrote past DiskFile. Empty when
  // all is well.
  [[nodiscard]] const std::vector<std::string> &strays() const noexcept { return strays_; }

 private:
  struct Write {
    std::uint64_t number;
    std::uint32_t begin, end;  // in the sector
    const std::byte *data;     // of byte `begin`; nullptr: zeros
    bool uncertain;
  };
  struct Length {
    std::uint64_t number, bytes;
    bool uncertain;
  };
  struct File {
    std::vector<std::byte> content;  // durable; shorter than durable_bytes: zeros follow
    std::uint64_t durable_bytes = 0;
    std::uint64_t bytes = 0;  // the length that processes see
    std::map<std::uint64_t, std::vector<Write>> pending;
    std::vector<Length> lengths;
  };
  struct NameChange {
    std::uint64_t number;
    platform::DiskOp op;
    std::string name, name2;
    std::size_t file;
    bool uncertain;
  };
  struct Running {  // a sync or durable write of a thread, not done yet
    std::uint64_t number = 0;
    std::size_t file = 0;
    std::uint64_t offset = 0, bytes = 0;
    std::string folder;
  };
  using Names = std::map<std::string, std::size_t, std::less<>>;
  struct Taste;  // what an image prefers: a pure function of its seed

  [[nodiscard]] bool ours(std::string_view path, std::string *name) const;
  [[nodiscard]] std::size_t file_of(const std::string &name, std::uint64_t number);
  void begin_operation(const Entry &entry, const std::string &name);
  void end_operation(const Entry &entry);
  void write(File *file, const Entry &entry, std::uint64_t offset, std::uint64_t bytes,
             const std::byte *data);
  void set_length(File *file, const Entry &entry, std::uint64_t bytes);
  void change_names(const Entry &entry, const std::string &name);
  void make_durable(File *file, std::vector<Write> *writes, std::uint64_t sector,
                    std::uint64_t before) const;
  static void make_length_durable(File *file, std::uint64_t before);
  void sync_file(File *file, std::uint64_t before);
  void sync_folder(const std::string &folder, std::uint64_t before);
  void forget_unreachable();
  [[nodiscard]] Names names_of_image(const Taste &taste) const;
  void write_file(const std::string &path, std::size_t index, const Taste &taste) const;

  std::string folder_;
  std::uint64_t last_ = 0;  // number of the last entry applied
  std::vector<File> files_;
  Names names_, durable_names_;
  std::vector<NameChange> name_changes_;
  std::unordered_map<std::int32_t, Running> running_;
  // Durable writes not done: another process's sync does not cover them.
  std::set<std::uint64_t> in_flight_;
  std::vector<std::string> strays_;
};

}  // namespace tmh::test::power
