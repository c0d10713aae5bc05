// error: a pipeline is declared by a class that is not final

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared final {
  using Payload = std::string;
  void handle(const Payload& payload);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
