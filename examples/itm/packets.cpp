// examples/itm/packets.cpp -- packets of many flows arrive in any order; threads put the flows
// together and look for signatures of attacks in their texts.
// Shape:     a thread takes a packet, sorts it into its flow, and takes a complete flow, if there
//            is one: three transactions. It reads the flow's text without one, because the flow is
//            its own then. An operation is one packet.
// Checks:    each flow comes out once, with its text; the signatures that were planted are found,
//            and no others.
// Source:    STAMP (intruder).
#include "examples/itm/packets.h"

#include <algorithm>
#include <string>
#include <vector>

#include "examples/itm/support/report.h"

namespace {

struct Sizes {
  std::uint64_t flows = 8192, bytes_max = 128, attacks_percent = 10, signatures = 64;
  std::uint64_t packets_max = 16;
};
constexpr std::uint64_t kSignatureBytes = 12;

struct Input {
  std::vector<std::string> signatures, texts;
  std::vector<bool> is_attack;
  std::vector<itm::Packet> packets;
};

// Texts are small letters, signatures are capitals: none is in a text by chance.
Input make_input(const Sizes &sizes, itm::Random &random) {
  Input input;
  const auto word = [&](std::uint64_t bytes, char first) {
    std::string text;
    for (std::uint64_t i = 0; i < bytes; ++i)
      text.push_back(static_cast<char>(first + static_cast<char>(random.below(26))));
    return text;
  };
  for (std::uint64_t i = 0; i < sizes.signatures; ++i)
    input.signatures.push_back(word(kSignatureBytes, 'A'));
  for (std::uint64_t flow = 0; flow < sizes.flows; ++flow) {
    const std::uint64_t bytes =
        kSignatureBytes + random.below(sizes.bytes_max - kSignatureBytes + 1);
    std::string text = word(bytes, 'a');
    input.is_attack.push_back(random.below(100) < sizes.attacks_percent);
    if (input.is_attack.back()) {
      text.replace(random.below(bytes - kSignatureBytes + 1), kSignatureBytes,
                   input.signatures[random.below(sizes.signatures)]);
    }
    input.texts.push_back(std::move(text));
  }
  for (std::uint64_t flow = 0; flow < sizes.flows; ++flow) {
    const std::string &text = input.texts[flow];
    const std::uint64_t count =
        1 + random.below(std::min<std::uint64_t>(sizes.packets_max, text.size()));
    std::vector<std::uint64_t> cuts = {0, text.size()};
    while (cuts.size() < count + 1) {
      const std::uint64_t cut = 1 + random.below(text.size() - 1);
      if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
    }
    std::sort(cuts.begin(), cuts.end());
    for (std::uint32_t i = 0; i < count; ++i)
      input.packets.push_back({flow + 1, i, static_cast<std::uint32_t>(count),
                               static_cast<std::uint32_t>(cuts[i + 1] - cuts[i]),
                               text.data() + cuts[i]});
  }
  for (std::uint64_t i = input.packets.size() - 1; i > 0; --i)
    std::swap(input.packets[i], input.packets[random.below(i + 1)]);
  return input;
}

struct Verdict {
  std::uint64_t flow;  // from 1 on
  bool is_whole, is_attack;
};
// Of one thread.
struct alignas(2 * itm::kLineBytes) Tally {
  std::vector<Verdict> verdicts;
};

// REQUIRES: at least one fragment.
Verdict judge(const Input &input, const itm::Fragment *first) {
  std::string text;
  for (const itm::Fragment *each = first; each != nullptr; each = each->next)
    text.append(each->packet->text, each->packet->bytes);
  bool is_attack = false;
  for (const std::string &signature : input.signatures)
    is_attack = is_attack || text.find(signature) != std::string::npos;
  const std::uint64_t flow = first->packet->flow;
  return {flow, text == input.texts[flow - 1], is_attack};
}

bool judge_one(const Input &input, std::vector<Verdict> &verdicts) {
  itm::Fragment *const first = itm::take_flow();
  if (first == nullptr) return false;
  verdicts.push_back(judge(input, first));
  itm::free_fragments(first);
  return true;
}

void work(itm::Worker &worker, const Input &input, Tally &tally) {
  std::vector<Verdict> verdicts;
  const std::uint64_t packets = input.packets.size();
  for (std::uint64_t i = itm::take_packet(packets); i < packets; i = itm::take_packet(packets)) {
    itm::add_packet(&input.packets[i]);
    judge_one(input, verdicts);
    worker.add(1);
  }
  while (judge_one(input, verdicts)) continue;
  tally.verdicts = std::move(verdicts);
}

// Returns how many attacks were found.
std::uint64_t check(const Input &input, const std::vector<Tally> &tallies, itm::Report &report) {
  std::vector<bool> seen(input.texts.size());
  std::uint64_t flows = 0, attacks = 0;
  for (const Tally &tally : tallies) {
    for (const Verdict &verdict : tally.verdicts) {
      report.require(!seen[verdict.flow - 1], "a flow came out twice");
      report.require(verdict.is_whole, "a flow has another text than was sent");
      report.require(verdict.is_attack == input.is_attack[verdict.flow - 1],
                     "an attack was missed, or one was seen that was none");
      seen[verdict.flow - 1] = true;
      ++flows;
      if (verdict.is_attack) ++attacks;
    }
  }
  report.require(flows == input.texts.size(), "flows were lost");
  report.require(itm::nothing_is_left(), "flows are left");
  return attacks;
}

}  // namespace

int main(int argc, char **argv) {
  Sizes sizes;
  itm::Options options("packets", "Packets become flows; an operation is one packet",
                       itm::Amount::kInputs);
  options.add("--flows", sizes.flows, "flows", 1, 1u << 26);
  options.add("--bytes", sizes.bytes_max, "of a flow's text, at most", kSignatureBytes, 1u << 16);
  options.add("--packets", sizes.packets_max, "of a flow, at most", 1, 1024);
  options.add("--attacks", sizes.attacks_percent, "percent of the flows", 0, 100);
  options.add("--signatures", sizes.signatures, "that are looked for", 1, 10'000);
  if (!options.parse(argc, argv)) return options.status();

  const itm::Common &common = options.common();
  itm::Report report(options);
  itm::Work done;
  std::uint64_t attacks = 0;
  const std::uint64_t inputs = itm::run_rounds(common, done, [&](std::uint64_t round) {
    itm::Random random(itm::seed_of(common.seed, round));
    const Input input = make_input(sizes, random);
    itm::packets_open();
    std::vector<Tally> tallies(common.threads);
    done += itm::run_threads(
        common, [&](itm::Worker &worker) { work(worker, input, tallies[worker.index()]); });
    attacks += check(input, tallies, report);
    return report.is_ok();
  });
  report.detail("flows", sizes.flows);
  report.detail("bytes_max", sizes.bytes_max);
  report.detail("packets_max", sizes.packets_max);
  report.detail("attacks_percent", sizes.attacks_percent);
  report.detail("signatures", sizes.signatures);
  report.detail("inputs", inputs);
  report.detail("attacks_found", attacks);
  return report.print(done);
}
