#include "bench_messages.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace oncebox::bench {

std::vector<Message> make_messages(std::size_t count, std::size_t first) {
  constexpr std::string_view kPayload =
      R"({"type":"payment.received","id":"evt_0123456789abcdef","amount":12345,"currency":"EUR",)"
      R"("customer":"cus_0123456789","created":1763222222,"livemode":false,)"
      R"("note":"a payload of about two hundred bytes"})";
  constexpr std::uint64_t kScatter = 0x9E3779B97F4A7C15;  // makes neighbours differ in every digit
  std::vector<Message> messages;
  messages.reserve(count);
  for (std::size_t i = first; i < first + count; ++i) {
    messages.push_back({.key = {"StripeWebhook", fmt::format("msg-{:016x}", i * kScatter)},
                        .topic = "payment.received",
                        .payload = kPayload});
  }
  return messages;
}

std::size_t claim_and_acknowledge(QueueStore& queue, const OwnerToken& owner, std::size_t batch) {
  const std::vector<ClaimedMessage> claimed = queue.claim({.owner = owner, .limit = batch});
  std::vector<Settlement> settlements;
  settlements.reserve(claimed.size());
  for (const ClaimedMessage& message : claimed) {
    settlements.push_back({.delivery = delivery_of(message), .verdict = Ack{}});
  }
  queue.settle(settlements);
  return claimed.size();
}

}  // namespace oncebox::bench
