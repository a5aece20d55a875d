// tools/tpd_command.cpp -- its options.
#include "tools/tpd_command.h"

#include <memory>

#include "platform/assert.h"
#include "tools/tpd.h"

namespace tmh::tools {

void add_tpd_command(programs::Command *line, std::function<Exit()> *chosen) {
  TMH_ASSERT(line != nullptr && chosen != nullptr);
  const auto command = std::make_shared<TpdCommand>();
  programs::Command sub = line->add_subcommand(
      "tpd", "Serve transactions and files of dbopen() to programs with TP_SERVER, until a signal");
  programs::Option socket = sub.add_option("--socket", command->socket,
                                           "path of the socket; a dead server's is replaced");
  sub.add_option("--listen", command->listen, "127.0.0.1:PORT instead; port 0 is any")
      .excludes(socket);
  sub.add_option("--home", command->home,
                 "folder of the environment (TP_HOME; else beside the files)");
  sub.add_option("--durability", command->durability, "of a new environment (strict)")
      .check_one_of({"strict", "buffered", "none"});
  sub.add_option("--allow-uid", command->uids,
                 "a user to serve besides root and this process's; several times")
      .allow_extra_args(false)
      .check_range<std::uint64_t>(0, 0xffff'fffe);
  sub.add_option("--log-type", command->log_types,
                 "a type of records that clients may log, which nothing undoes; several times")
      .allow_extra_args(false)
      .check_range<std::uint64_t>(1, 0x0fff'ffff);
  sub.add_flag("--tcl", command->tcl, "run scripts of clients, in a safe interpreter");
  sub.add_option("--script-time", command->script_s, "seconds that a script may take (10)")
      .check_range<double>(0.001, 1e6);
  sub.add_option("--write-time", command->write_s,
                 "seconds until a client that does not read is given up (10)")
      .check_range<double>(0.001, 1e6);
  sub.add_flag("--json", command->json, "print JSON, a line each");
  sub.parse_complete_callback([command] {
    if (command->socket.empty() && command->listen.empty())
      programs::refuse_without("--socket or --listen");
  });
  sub.footer(
      "SIGUSR1 prints counters, as the end does.\n"
      "Example: tmh tpd --socket /run/bank.socket --home bank\nManual page: tmh(1).");
  sub.final_callback([command, chosen] { *chosen = [command] { return run(*command); }; });
}

}  // namespace tmh::tools
