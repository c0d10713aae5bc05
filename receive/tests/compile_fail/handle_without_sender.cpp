// error: the handle of a pipeline with an OutboxPayload takes a Sender<OutboxPayload>& as its last
// parameter

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  using OutboxPayload = std::string;
  static constexpr std::string_view outbox_topic = "order.accepted";
  void handle(const Payload& payload, ReceiveContext& context);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
