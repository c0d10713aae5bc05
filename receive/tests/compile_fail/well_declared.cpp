// Compiles: what the others beside it do wrong is all that is wrong with them.

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  using Result = std::string;
  using OutboxPayload = std::string;
  static constexpr std::string_view outbox_topic = "order.accepted";
  static ReceiverOptions policies() { return {}; }
  static std::string_view key(const Payload& payload) { return payload; }
  Result handle(const Payload& payload, ReceiveContext& context, Sender<OutboxPayload>& sender);
};

struct Shortest {
  using Payload = std::string;
  void handle(const Payload& payload);
};

struct InTransaction {
  using Payload = std::string;
  using OutboxPayload = std::string;
  static constexpr std::string_view outbox_topic = "order.accepted";
  void handle(const Payload& payload, Transaction& transaction, Sender<OutboxPayload>& sender);
};

void declare(Store& store) {
  ReliabilityPipeline<Declared> pipeline(store);
  auto receiver = pipeline.receiver();
  auto processor = pipeline.processor();
  ReliabilityPipeline<Shortest> shortest(store);
  auto shortest_processor = shortest.processor();
  ReliabilityPipeline<InTransaction> transactional(store);
  Handlers().on("order.accept", transactional.transactional_handler());
}
