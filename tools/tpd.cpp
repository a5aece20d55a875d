// tools/tpd.cpp -- the server of tp/server.h, which the library tmh-db has.
// Shape:     the library is loaded when it is asked for, as tools/db.cpp does; that of scripts by
//            the server.
// Contexts:  one thread.
#include "tools/tpd.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <tp/server.h>

#include "platform/assert.h"
#include "tools/failure.h"
#include "tools/preloaded_program.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

const LoadedFirst kLibrary{"", "libtmh-db.so." TMH_SO_VERSION, "TMH_DB_LIBRARY", ""};
const LoadedFirst kScripts{"libtmh-tcl", "libtmh-tcl.so", "TMH_TCL_LIBRARY",
                           "; it is built where Tcl 8.6 is found"};
constexpr std::string_view kLoopback = "127.0.0.1:";

[[nodiscard]] int port_of(const std::string &address) {
  const std::string port = address.substr(std::min(kLoopback.size(), address.size()));
  const bool is_number = !port.empty() && port.size() <= 5 &&
                         port.find_first_not_of("0123456789") == std::string::npos;
  if (!address.starts_with(kLoopback) || !is_number || std::stoi(port) > 0xffff)
    throw Error(Errc::kBadArgument, address + ": is not 127.0.0.1:PORT");
  return std::stoi(port);
}

// The server goes on when nobody reads what it prints.
template <class Print>
void print_if_read(const Print &print_all) noexcept {
  try {
    print_all();
    flush_output();
  } catch (const std::exception &) {
  }
}

void tell_address(const char *address, void *argument) {
  const auto &command = *static_cast<const TpdCommand *>(argument);
  print_if_read([&] {
    if (command.json)
      print_line(Json{{"type", "ready"}, {"address", printable(address)}});
    else
      print(fmt::format("TP_SERVER={}\n", printable(address)));
  });
}

void tell_counters(const tp_server_counters *counters, void *argument) {
  TMH_ASSERT(counters != nullptr && argument != nullptr);
  const auto &command = *static_cast<const TpdCommand *>(argument);
  print_if_read([&] {
    if (command.json)
      print_line(Json{{"type", "counters"},
                      {"clients", counters->clients},
                      {"refused", counters->refused},
                      {"requests", counters->requests},
                      {"operations", counters->operations},
                      {"transactions", counters->transactions},
                      {"rolled_back", counters->rolled_back},
                      {"deaths", counters->deaths},
                      {"malformed", counters->malformed}});
    else
      print(fmt::format(
          "{} clients, {} refused; {} requests, {} operations; {} transactions "
          "committed, {} rolled back, {} of these of clients that were gone; {} "
          "malformed\n",
          counters->clients, counters->refused, counters->requests, counters->operations,
          counters->transactions, counters->rolled_back, counters->deaths, counters->malformed));
  });
}

// They are in range.
[[nodiscard]] std::vector<std::uint32_t> numbers_of(const std::vector<std::string> &words) {
  std::vector<std::uint32_t> numbers;
  for (const std::string &word : words)
    numbers.push_back(static_cast<std::uint32_t>(std::stoul(word)));
  return numbers;
}

[[nodiscard]] int durability_of(const std::string &word) noexcept {
  return word == "none" ? 0 : word == "strict" ? 1 : 2;
}

}  // namespace

Exit run(const TpdCommand &command) {
  void *const library = ::dlopen(find_library(kLibrary, Errc::kIo).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(Errc::kIo, ::dlerror());
  const auto serve = reinterpret_cast<decltype(&tp_serve)>(::dlsym(library, "tp_serve"));
  TMH_ASSERT(serve != nullptr);
  tp_server_options options{};
  if (command.listen.empty())
    options.socket = command.socket.c_str();
  else
    options.port = port_of(command.listen);
  if (!command.home.empty()) options.home = command.home.c_str();
  options.durability = durability_of(command.durability);
  const std::vector<std::uint32_t> uids = numbers_of(command.uids);
  options.uids = uids.data();
  options.uid_count = uids.size();
  const std::vector<std::uint32_t> types = numbers_of(command.log_types);
  options.log_types = types.data();
  options.log_type_count = types.size();
  options.script_ms = static_cast<std::uint64_t>(command.script_s * 1e3);
  options.write_ms = static_cast<std::uint64_t>(command.write_s * 1e3);
  const std::string scripts = command.tcl ? find_library(kScripts, Errc::kIo) : std::string();
  if (command.tcl) options.tcl = scripts.c_str();
  options.ready = tell_address;
  options.count = tell_counters;
  options.argument = const_cast<TpdCommand *>(&command);
  if (serve(&options) != 0) {
    const int error = errno;
    throw Error(error == EACCES ? Errc::kPermission : Errc::kIo,
                fmt::format("{}: {}", command.listen.empty() ? command.socket : command.listen,
                            std::strerror(error)));
  }
  return Exit::kOk;
}

}  // namespace tmh::tools
