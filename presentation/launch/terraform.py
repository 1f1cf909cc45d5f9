"""A plan as Terraform, for AWS, Google Cloud, Azure and Oracle Cloud."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from domain.answers import HourPrice
from domain.errors import UsageError
from presentation.launch.plan import Plan, machine_of
from presentation.launch.schedulers import commented

__all__ = ["quoted", "terraform"]

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
GCP_ACCELERATORS = {"t4": "nvidia-tesla-t4", "v100": "nvidia-tesla-v100"}
"""Accelerators that are attached to a machine type, by the part of the price list's name after its `+`."""
TOKEN = "${var.hf_token}"


def quoted(text: str) -> str:
    """Return a string of HCL: nothing in it is a template, and no control character is left as it is."""
    escaped = "".join(
        _ESCAPES.get(char) or (char if char.isprintable() or char == " " else _unicode(char)) for char in text
    )
    return '"' + escaped.replace("${", "$${").replace("%{", "%%{") + '"'


def _unicode(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def terraform(plan: Plan) -> str:
    """Return a configuration that starts the machine, and runs the container on it at its first boot."""
    machine = machine_of(plan, "terraform")
    writers: dict[str, Callable[[Plan, HourPrice], str]] = {"aws": _aws, "gcp": _gcp, "azure": _azure, "oci": _oci}
    if machine.provider not in writers:
        raise UsageError(
            f"the cheapest machine is of {machine.provider}, for which no Terraform is written.",
            field="format",
            remedy=f"Ask with --provider {','.join(writers)}, or with --format skypilot.",
        )
    use = (
        "Use: terraform init && terraform apply; terraform destroy ends it, it costs until then.",
        "No port is opened to the world: reach it by an SSH tunnel, or add a rule of your own.",
    )
    head = commented((*plan.comments, *(f"Assumed: {line}." for line in plan.assumed), *use))
    token = _variable("hf_token", "Token of Hugging Face, for a gated model.", "", sensitive=True)
    return f"{head}\n{token}\n{writers[machine.provider](plan, machine)}"


def _variable(name: str, description: str, default: str | None = None, *, sensitive: bool = False) -> str:
    lines = [f'variable "{name}" {{', "  type        = string", f"  description = {quoted(description)}"]
    lines += [f"  default     = {quoted(default)}"] if default is not None else []
    lines += ["  sensitive   = true"] if sensitive else []
    return "\n".join([*lines, "}\n"])


def _provider(source: str, version: str, settings: Sequence[str]) -> str:
    name = source.rpartition("/")[2]
    body = "".join(f"  {setting}\n" for setting in settings)
    return (
        f"terraform {{\n  required_providers {{\n    {name} = {{\n      source  = {quoted(source)}\n"
        f"      version = {quoted(version)}\n    }}\n  }}\n}}\n\nprovider {quoted(name)} {{\n{body}}}\n"
    )


def _boot(plan: Plan, *, docker: bool) -> str:
    """Return the script of the first boot as an expression; `docker`: the image has it already."""
    command = plan.command
    devices = {
        "nvidia": ["--gpus", str(plan.devices)],
        "amd": ["--device", "/dev/kfd", "--device", "/dev/dri", "--group-add", "video"],
        "intel": ["--device", "/dev/dri"],
    }.get(str(plan.vendor), [])
    restart = ["--restart", "unless-stopped"] if command.port else []
    ports = ["--publish", f"127.0.0.1:{command.port}:{command.port}"] if command.port else []
    entry = ["--entrypoint", command.entry[0], command.image, *command.entry[1:]]
    run = ["docker", "run", "--detach", "--name", "model", *restart, *devices, "--ipc", "host", *ports]
    lines = ["#!/bin/bash", "set -eu"]
    lines += [] if docker else ["apt-get update", "apt-get install -y docker.io"]
    # Some clouds run the script at every boot.
    written = [quoted(line) for line in (*lines, "docker rm --force model || true")]
    # The only part that Terraform fills in.
    written.append(f"\"export HF_TOKEN='{TOKEN}'\"")
    written.append(quoted(shlex.join([*run, "--env", "HF_TOKEN", *entry])))
    inside = "".join(f"    {line},\n" for line in written)
    return f'join("\\n", [\n{inside}  ])'


def _aws(plan: Plan, machine: HourPrice) -> str:
    architecture = "arm64" if plan.arm else "x86_64"
    parameter = f"/aws/service/deeplearning/ami/{architecture}/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
    if plan.vendor != "nvidia":
        architecture = "arm64" if plan.arm else "amd64"
        parameter = f"/aws/service/canonical/ubuntu/server/24.04/stable/current/{architecture}/hvm/ebs-gp3/ami-id"
    spot = '  instance_market_options {\n    market_type = "spot"\n  }\n' if machine.spot else ""
    return (
        _provider("hashicorp/aws", ">= 5.0", [f"region = {quoted(machine.region or 'us-east-1')}"])
        + f"""
data "aws_ssm_parameter" "image" {{
  name = {quoted(parameter)}
}}

resource "aws_instance" "model" {{
  ami           = data.aws_ssm_parameter.image.value
  instance_type = {quoted(str(machine.instance))}
  user_data     = {_boot(plan, docker=plan.vendor == "nvidia")}
{spot}  root_block_device {{
    volume_size = {plan.disk_gb}
    volume_type = "gp3"
  }}
  tags = {{
    Name = {quoted(plan.name)}
  }}
}}

output "address" {{
  value = aws_instance.model.public_ip
}}
"""
    )


def _gcp(plan: Plan, machine: HourPrice) -> str:
    kind, _, attached = str(machine.instance).partition("+")
    region = machine.region or "us-central1"
    accelerator = ""
    if attached:
        type_ = GCP_ACCELERATORS.get(attached, f"nvidia-{attached}")
        accelerator = f"  guest_accelerator {{\n    type  = {quoted(type_)}\n    count = {machine.devices_each}\n  }}\n"
    image = "ubuntu-os-cloud/ubuntu-2404-lts-amd64"
    if plan.vendor == "nvidia":
        image = "deeplearning-platform-release/common-cu128-ubuntu-2204-nvidia-570"
    spot = '    provisioning_model  = "SPOT"\n    preemptible         = true\n' if machine.spot else ""
    return (
        _variable("project", "Project that pays.")
        + "\n"
        + _variable("zone", "Zone of the region that has the machine.", f"{region}-a")
        + "\n"
        + _provider(
            "hashicorp/google", ">= 6.0", ["project = var.project", f"region  = {quoted(region)}", "zone    = var.zone"]
        )
        + f"""
resource "google_compute_instance" "model" {{
  name         = {quoted(plan.name)}
  machine_type = {quoted(kind)}
{accelerator}  boot_disk {{
    initialize_params {{
      image = {quoted(image)}
      size  = {plan.disk_gb}
      type  = "pd-balanced"
    }}
  }}
  network_interface {{
    network = "default"
    access_config {{}}
  }}
  scheduling {{
    on_host_maintenance = "TERMINATE"
    automatic_restart   = {"false" if machine.spot else "true"}
{spot}  }}
  metadata = {{
    install-nvidia-driver = "True"
  }}
  metadata_startup_script = {_boot(plan, docker=plan.vendor == "nvidia")}
}}

output "address" {{
  value = google_compute_instance.model.network_interface[0].access_config[0].nat_ip
}}
"""
    )


def _azure(plan: Plan, machine: HourPrice) -> str:
    name, location = quoted(plan.name), "azurerm_resource_group.model.location"
    group = "azurerm_resource_group.model.name"
    spot = '  priority              = "Spot"\n  eviction_policy       = "Deallocate"\n' if machine.spot else ""
    return (
        _variable("subscription", "Subscription that pays.")
        + "\n"
        + _variable("ssh_key", "Public key of whoever signs in.")
        + "\n"
        + _provider("hashicorp/azurerm", ">= 4.0", ["subscription_id = var.subscription", "features {}"])
        + f"""
resource "azurerm_resource_group" "model" {{
  name     = {name}
  location = {quoted(machine.region or "eastus")}
}}

resource "azurerm_virtual_network" "model" {{
  name                = {name}
  location            = {location}
  resource_group_name = {group}
  address_space       = ["10.0.0.0/16"]
}}

resource "azurerm_subnet" "model" {{
  name                 = {name}
  resource_group_name  = {group}
  virtual_network_name = azurerm_virtual_network.model.name
  address_prefixes     = ["10.0.0.0/24"]
}}

resource "azurerm_public_ip" "model" {{
  name                = {name}
  location            = {location}
  resource_group_name = {group}
  allocation_method   = "Static"
}}

resource "azurerm_network_interface" "model" {{
  name                = {name}
  location            = {location}
  resource_group_name = {group}
  ip_configuration {{
    name                          = "model"
    subnet_id                     = azurerm_subnet.model.id
    private_ip_address_allocation = "Dynamic"
    public_ip_address_id          = azurerm_public_ip.model.id
  }}
}}

resource "azurerm_linux_virtual_machine" "model" {{
  name                  = {name}
  location              = {location}
  resource_group_name   = {group}
  size                  = {quoted(f"Standard_{machine.instance}")}
  admin_username        = "model"
  network_interface_ids = [azurerm_network_interface.model.id]
{spot}  custom_data           = base64encode({_boot(plan, docker=True)})
  admin_ssh_key {{
    username   = "model"
    public_key = var.ssh_key
  }}
  os_disk {{
    caching              = "ReadWrite"
    storage_account_type = "Premium_LRS"
    disk_size_gb         = {plan.disk_gb}
  }}
  source_image_reference {{
    publisher = "microsoft-dsvm"
    offer     = "ubuntu-hpc"
    sku       = "2204"
    version   = "latest"
  }}
}}

output "address" {{
  value = azurerm_public_ip.model.ip_address
}}
"""
    )


def _oci(plan: Plan, machine: HourPrice) -> str:
    spot = (
        '  preemptible_instance_config {\n    preemption_action {\n      type = "TERMINATE"\n    }\n  }\n'
        if machine.spot
        else ""
    )
    wanted = (
        ("compartment", "OCID of the compartment that pays."),
        ("availability_domain", "Name of the availability domain."),
        ("subnet", "OCID of the subnet."),
        ("image", "OCID of an image with the drivers of the GPU and Docker, in this region."),
    )
    return (
        "\n".join(_variable(name, text) for name, text in wanted)
        + "\n"
        + _provider("oracle/oci", ">= 6.0", [f"region = {quoted(machine.region or 'us-ashburn-1')}"])
        + f"""
resource "oci_core_instance" "model" {{
  compartment_id      = var.compartment
  availability_domain = var.availability_domain
  shape               = {quoted(str(machine.instance))}
  display_name        = {quoted(plan.name)}
{spot}  create_vnic_details {{
    subnet_id = var.subnet
  }}
  source_details {{
    source_type             = "image"
    source_id               = var.image
    boot_volume_size_in_gbs = {plan.disk_gb}
  }}
  metadata = {{
    user_data = base64encode({_boot(plan, docker=True)})
  }}
}}

output "address" {{
  value = oci_core_instance.model.public_ip
}}
"""
    )
