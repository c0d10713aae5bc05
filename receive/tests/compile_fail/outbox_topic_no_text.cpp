// error: the outbox_topic of a pipeline is a static text

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  using OutboxPayload = std::string;
  static constexpr int outbox_topic = 7;
  void handle(const Payload& payload, Sender<OutboxPayload>& sender);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
