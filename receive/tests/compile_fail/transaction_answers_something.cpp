// error: the handle of a pipeline in a transaction takes (const Payload&, Transaction&), then a
// HandlerContext& if wanted and a Sender<OutboxPayload>& if it sends, and answers nothing

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  int handle(const Payload& payload, Transaction& transaction);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
