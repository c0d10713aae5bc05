// error: a pipeline declares what it handles: using Payload = ...;

#include <string>
#include <string_view>

#include "oncebox/receive/reliability_pipeline.hpp"

using namespace oncebox;

struct Declared {
  void handle(const std::string& payload);
};

void declare(Store& store) { const ReliabilityPipeline<Declared> pipeline(store); }
