// tools/db_commands.cpp -- check, dump, load; and the server of such files.
#include "tools/db_commands.h"

#include <memory>

#include <fmt/format.h>

#include "platform/assert.h"
#include "tools/db.h"
#include "tools/tpd_command.h"

namespace tmh::tools {

namespace {

void add_one(programs::Command db, DbCommand::Kind kind, const char *name, const char *what,
             const char *example, std::function<Exit()> *chosen) {
  const auto command = std::make_shared<DbCommand>();
  command->kind = kind;
  programs::Command sub = db.add_subcommand(name, what);
  sub.add_option("FILE", command->file, "the file").required();
  if (kind == DbCommand::Kind::kLoad)
    sub.add_option("TEXT", command->from, "file of the text (default: standard input)");
  if (kind == DbCommand::Kind::kCheck) sub.add_flag("--json", command->json, "print JSON");
  sub.footer(fmt::format("Example: {}\nManual page: tmh-dbopen(3).", example));
  sub.final_callback([command, chosen] { *chosen = [command] { return run(*command); }; });
}

}  // namespace

void add_db_commands(programs::Command *line, std::function<Exit()> *chosen) {
  TMH_ASSERT(line != nullptr && chosen != nullptr);
  programs::Command db =
      line->add_subcommand("db", "Files of dbopen(), of db(3): look at them, copy them");
  db.require_subcommand();
  add_one(db, DbCommand::Kind::kCheck, "check", "Is the file sound? What is in it",
          "tmh db check accounts", chosen);
  add_one(db, DbCommand::Kind::kDump, "dump",
          "Its records as text, which `tmh db load` and Berkeley DB's db_load read",
          "tmh db dump accounts > accounts.txt", chosen);
  add_one(db, DbCommand::Kind::kLoad, "load",
          "A new file, of such a text or of Berkeley DB's db_dump",
          "db5.3_dump old.db | tmh db load accounts", chosen);
  add_tpd_command(line, chosen);
}

}  // namespace tmh::tools
