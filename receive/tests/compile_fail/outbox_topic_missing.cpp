// error: a pipeline with an OutboxPayload declares its outbox_topic

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  using OutboxPayload = std::string;
  void handle(const Payload& payload, Sender<OutboxPayload>& sender);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
