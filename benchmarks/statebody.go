package main

import (
	"bytes"
	"crypto/md5" // what the API asks for
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// serialWidth lets serials be written over each other: JSON does not mind blanks.
const serialWidth = 10

// stateBody is a state file of a given size whose serial can be set.
type stateBody struct {
	content  []byte
	serialAt int
}

// The contents of a state: text that looks like one, or noise that nothing can compress.
const (
	realistic = "realistic"
	noise     = "random"
)

// newStateBody makes a state of about this many bytes. The same arguments give the same bytes.
func newStateBody(kind string, size int) *stateBody {
	var text bytes.Buffer
	text.Grow(size + 4096)
	text.WriteString(`{"version":4,"terraform_version":"1.12.0","serial":`)
	b := &stateBody{serialAt: text.Len()}
	fmt.Fprintf(&text, `%*d,"lineage":"bench","outputs":{},"resources":[`, serialWidth, 0)
	source := rand.NewChaCha8([32]byte{1})
	random := rand.New(source)
	for i := 0; text.Len() < size; i++ {
		if i > 0 {
			text.WriteByte(',')
		}
		if kind == noise {
			raw := make([]byte, 1500)
			_, _ = source.Read(raw) // never fails
			fmt.Fprintf(&text, `{"mode":"managed","type":"terraform_data","name":"r%d","provider":"provider[\"terraform.io/builtin/terraform\"]",`+
				`"instances":[{"schema_version":0,"attributes":{"id":"%d","input":%q}}]}`, i, i, base64.StdEncoding.EncodeToString(raw))
			continue
		}
		id, subnet, octet := random.Uint64(), random.Uint32(), random.IntN(250)
		fmt.Fprintf(&text, `{"mode":"managed","type":"aws_instance","name":"node_%[1]d","provider":"provider[\"registry.opentofu.org/hashicorp/aws\"]",`+
			`"instances":[{"schema_version":1,"attributes":{"ami":"ami-0c55b159cbfafe1f0","arn":"arn:aws:ec2:eu-central-1:123456789012:instance/i-%016[2]x",`+
			`"associate_public_ip_address":false,"availability_zone":"eu-central-1a","cpu_core_count":2,"ebs_optimized":true,"id":"i-%016[2]x",`+
			`"instance_state":"running","instance_type":"m5.large","monitoring":false,"private_dns":"ip-10-0-1-%[4]d.eu-central-1.compute.internal",`+
			`"private_ip":"10.0.1.%[4]d","subnet_id":"subnet-%08[3]x","tags":{"Environment":"production","Name":"node-%[1]d","Team":"platform"},`+
			`"tags_all":{"Environment":"production","Name":"node-%[1]d","Team":"platform"},"tenancy":"default","timeouts":null,"user_data":null,`+
			`"vpc_security_group_ids":["sg-%08[3]x"]},"sensitive_attributes":[],"private":"bnVsbA=="}]}`, i, id, subnet, octet)
	}
	text.WriteString(`]}`)
	b.content = text.Bytes()
	return b
}

// number sets the serial and gives the MD5 of the whole.
func (b *stateBody) number(serial int) (sum string) {
	copy(b.content[b.serialAt:], fmt.Sprintf("%*d", serialWidth, serial))
	digest := md5.Sum(b.content)
	return hex.EncodeToString(digest[:])
}
