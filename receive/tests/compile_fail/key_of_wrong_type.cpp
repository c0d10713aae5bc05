// error: the key of a pipeline takes a const Payload& or a const Envelope<Payload>&, and answers a
// text or an optional one

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  using Payload = std::string;
  static int key(const Payload& payload);
  void handle(const Payload& payload);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
