// error: the OutboxPayload of a pipeline needs oncebox::PayloadCodec::encode

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct OrderAccepted {};

// Only what is handled is decoded; what is sent is encoded.
template <>
struct oncebox::PayloadCodec<OrderAccepted> {
  static OrderAccepted decode(const Payload& payload);
};

struct Declared {
  using Payload = std::string;
  using OutboxPayload = OrderAccepted;
  static constexpr std::string_view outbox_topic = "order.accepted";
  void handle(const Payload& payload, Sender<OutboxPayload>& sender);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
