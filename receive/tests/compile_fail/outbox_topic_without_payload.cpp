// error: a pipeline with an outbox_topic declares its OutboxPayload

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  static constexpr std::string_view outbox_topic = "order.accepted";
  void handle(const Payload& payload);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
