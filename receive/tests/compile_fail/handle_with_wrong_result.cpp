// error: the handle of a pipeline takes (const Payload&, ReceiveContext&), then a
// Sender<OutboxPayload>& if it sends, and answers Result

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  using Result = std::string;
  void handle(const Payload& payload, ReceiveContext& context);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
